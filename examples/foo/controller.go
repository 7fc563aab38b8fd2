package main

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/examples/foo/api/v1alpha1"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

const (
	// SuccessSynced is the reason of the event for a Foo in its desired state.
	SuccessSynced = "Synced"
	// ErrResourceExists is the reason of the event for a Foo whose Deployment has another owner.
	ErrResourceExists = "ErrResourceExists"
)

// +kubebuilder:rbac:groups=samplecontroller.k8s.io,resources=foos,verbs=get;list;watch
// +kubebuilder:rbac:groups=samplecontroller.k8s.io,resources=foos/status,verbs=patch
// +kubebuilder:rbac:groups=samplecontroller.k8s.io,resources=foos/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update

// A FooReconciler keeps a Deployment for each Foo.
type FooReconciler struct {
	client.Client
	Live     client.Reader // of the server, rather than of a cache
	Recorder record.EventRecorder
}

// SetupWithManager adds the controller to a manager. It reconciles a Foo when the Foo or its
// Deployment changes, and at each resync.
func (r *FooReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Foo{}).
		Owns(&appsv1.Deployment{}, ctrl.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WithOptions(ctrl.ControllerOptions{MaxConcurrentReconciles: 2}).
		Complete(r)
}

// Reconcile compares the desired with the actual state of a Foo, and applies the difference.
func (r *FooReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.sync(ctx, req.NamespacedName); err != nil {
		return ctrl.Result{}, fmt.Errorf("error syncing '%s': %w, requeuing", req, err)
	}
	ctrl.LoggerFrom(ctx).Info(fmt.Sprintf("Successfully synced '%s'", req))
	return ctrl.Result{}, nil
}

func (r *FooReconciler) sync(ctx context.Context, key types.NamespacedName) error {
	foo := &v1alpha1.Foo{}
	if err := r.Get(ctx, key, foo); err != nil {
		return client.IgnoreNotFound(err) // the server deletes the Deployment of a Foo that is gone
	}
	if !foo.DeletionTimestamp.IsZero() {
		return nil
	}
	deployment, err := r.deployment(ctx, foo)
	if deployment == nil || err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		err := fmt.Errorf("deployment %q exists and is not controlled by this Foo", deployment.Name)
		r.Recorder.Event(foo, corev1.EventTypeWarning, ErrResourceExists, err.Error())
		return err
	}
	if wanted, has := foo.Spec.Replicas, ptr.Deref(deployment.Spec.Replicas, 1); wanted != nil && *wanted != has {
		ctrl.LoggerFrom(ctx).Info("The Deployment has another number of replicas", "wanted", *wanted, "has", has)
		deployment.Spec.Replicas = wanted
		if err := r.Update(ctx, deployment); err != nil {
			return err
		}
	}
	if err := r.removeOthers(ctx, foo); err != nil {
		return err
	}
	if err := r.report(ctx, foo, deployment); err != nil {
		return err
	}
	r.Recorder.Event(foo, corev1.EventTypeNormal, SuccessSynced, "The Deployment is as the Foo wants it")
	return nil
}

// going reports whether a Foo has been deleted, or is being deleted.
func (r *FooReconciler) going(ctx context.Context, foo *v1alpha1.Foo) (bool, error) {
	now := &v1alpha1.Foo{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(foo), now); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	return now.UID != foo.UID || !now.DeletionTimestamp.IsZero(), nil
}

// deployment returns the Deployment with the name in the spec of a Foo. It creates a missing one,
// unless the Foo is being deleted; it then returns nil.
func (r *FooReconciler) deployment(ctx context.Context, foo *v1alpha1.Foo) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := r.Get(ctx, client.ObjectKey{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName}, deployment)
	if !apierrors.IsNotFound(err) {
		return deployment, err
	}
	// The Deployment may be gone because the Foo is deleted: the server deletes both, and the event
	// for the Deployment may come first.
	if going, err := r.going(ctx, foo); going || err != nil {
		return nil, err
	}
	deployment = newDeployment(foo)
	if err := ctrl.SetControllerReference(foo, deployment, r.Scheme()); err != nil {
		return nil, err
	}
	return deployment, r.Create(ctx, deployment)
}

// removeOthers deletes the Deployments of a Foo with names that its spec had before.
func (r *FooReconciler) removeOthers(ctx context.Context, foo *v1alpha1.Foo) error {
	deployments := &appsv1.DeploymentList{}
	if err := r.List(ctx, deployments, client.InNamespace(foo.Namespace)); err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if d.Name == foo.Spec.DeploymentName || !metav1.IsControlledBy(&d, foo) || !d.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.Delete(ctx, &d, client.Preconditions{UID: &d.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete obsolete Deployment %q: %w", d.Name, err)
		}
	}
	return nil
}

// newDeployment returns the initial Deployment of a Foo.
func newDeployment(foo *v1alpha1.Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "foo": string(foo.UID)} // a name may be too long for a label
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}

// report writes the state of the Deployment into the status, if it has changed.
func (r *FooReconciler) report(ctx context.Context, foo *v1alpha1.Foo, deployment *appsv1.Deployment) error {
	if foo.Status.AvailableReplicas == deployment.Status.AvailableReplicas {
		return nil
	}
	before := foo.DeepCopy()
	foo.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	if err := r.Status().Patch(ctx, foo, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}
