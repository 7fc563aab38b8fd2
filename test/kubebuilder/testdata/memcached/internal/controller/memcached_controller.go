// Package controller keeps a Deployment for each Memcached.
package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cachev1 "example.com/memcached/api/v1"
)

const (
	// memcachedFinalizer keeps a Memcached until the event of its end is told.
	memcachedFinalizer = "cache.example.com/finalizer"

	typeAvailableMemcached = "Available"
	typeDegradedMemcached  = "Degraded"

	image = "memcached:1.6.26-alpine3.19"
)

// MemcachedReconciler keeps a Deployment for each Memcached.
type MemcachedReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete

// Reconcile makes the Deployment of a Memcached what it should be, and tells in the status how it is.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	memcached := &cachev1.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !memcached.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, memcached)
	}
	if len(memcached.Status.Conditions) == 0 {
		err := r.setStatus(ctx, memcached, 0, metav1.Condition{Type: typeAvailableMemcached, Status: metav1.ConditionUnknown, Reason: "Reconciling", Message: "begins"})
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	if controllerutil.AddFinalizer(memcached, memcachedFinalizer) {
		if err := r.Update(ctx, memcached); err != nil {
			return ctrl.Result{}, err
		}
	}

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: memcached.Name, Namespace: memcached.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		return r.shape(memcached, deployment)
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deployment: %w", err)
	}
	if result == controllerutil.OperationResultCreated {
		r.Recorder.Eventf(memcached, deployment, corev1.EventTypeNormal, "Created", "Create", "Deployment %s is there", deployment.Name)
	}
	size, ready := *deployment.Spec.Replicas, deployment.Status.ReadyReplicas
	condition := metav1.Condition{Type: typeAvailableMemcached, Status: metav1.ConditionTrue, Reason: "Reconciling",
		Message: fmt.Sprintf("%d of %d instances are ready", ready, size)}
	if ready < size {
		condition.Status = metav1.ConditionFalse
	}
	return ctrl.Result{}, r.setStatus(ctx, memcached, ready, condition)
}

// finalize tells of the end of a Memcached, and lets it go.
func (r *MemcachedReconciler) finalize(ctx context.Context, memcached *cachev1.Memcached) error {
	if !controllerutil.ContainsFinalizer(memcached, memcachedFinalizer) {
		return nil
	}
	err := r.setStatus(ctx, memcached, memcached.Status.Ready, metav1.Condition{Type: typeDegradedMemcached, Status: metav1.ConditionTrue, Reason: "Finalizing", Message: "is deleted"})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Recorder.Eventf(memcached, nil, corev1.EventTypeWarning, "Deleting", "Delete", "Memcached %s goes", memcached.Name)
	controllerutil.RemoveFinalizer(memcached, memcachedFinalizer)
	return client.IgnoreNotFound(r.Update(ctx, memcached))
}

// setStatus writes the status, if it does not say so yet.
func (r *MemcachedReconciler) setStatus(ctx context.Context, memcached *cachev1.Memcached, ready int32, condition metav1.Condition) error {
	old := memcached.Status.DeepCopy()
	memcached.Status.Ready = ready
	condition.ObservedGeneration = memcached.Generation
	meta.SetStatusCondition(&memcached.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(*old, memcached.Status) {
		return nil
	}
	return r.Status().Update(ctx, memcached)
}

// shape makes a Deployment what a Memcached wants; what others have set it leaves alone.
func (r *MemcachedReconciler) shape(memcached *cachev1.Memcached, deployment *appsv1.Deployment) error {
	labels := map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": memcached.Name}
	spec := &deployment.Spec
	spec.Replicas = memcached.Spec.Size
	if deployment.CreationTimestamp.IsZero() {
		spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		spec.Template.Labels = labels
		spec.Template.Spec.Containers = []corev1.Container{{Name: "memcached", Image: image}}
	}
	container := &spec.Template.Spec.Containers[0]
	container.Command = []string{"memcached", "--memory-limit=64", "-p", fmt.Sprint(memcached.Spec.Port), "-o", "modern"}
	if len(container.Ports) == 0 {
		container.Ports = []corev1.ContainerPort{{Name: "memcached", Protocol: corev1.ProtocolTCP}}
	}
	container.Ports[0].ContainerPort = memcached.Spec.Port
	return ctrl.SetControllerReference(memcached, deployment, r.Scheme)
}

// SetupWithManager has a manager call Reconcile for each Memcached that changes, and for that to which a changed Deployment belongs.
func (r *MemcachedReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&cachev1.Memcached{}).
		Owns(&appsv1.Deployment{}).
		Named("memcached").
		Complete(r)
}
