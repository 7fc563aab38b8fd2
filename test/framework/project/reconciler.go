package main

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	label     = "expose"
	finalizer = "example.com/expose"
	nameIndex = ".spec.selector.app"
)

// ExposeReconciler keeps a Service for each Deployment with the label.
type ExposeReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// Reconcile makes the Service of one Deployment as it should be.
func (r *ExposeReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)
	var deployment appsv1.Deployment
	if err := r.Get(ctx, req.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !deployment.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&deployment, finalizer) {
			return ctrl.Result{}, r.Update(ctx, &deployment)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&deployment, finalizer) {
		if err := r.Update(ctx, &deployment); err != nil {
			return ctrl.Result{}, err
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: req.Name, Namespace: req.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.Selector = deployment.Spec.Selector.MatchLabels
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		return ctrl.SetControllerReference(&deployment, service, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result != controllerutil.OperationResultNone {
		log.Info("service", "result", result)
		r.Recorder.Eventf(&deployment, service, corev1.EventTypeNormal, "Exposed", "Expose", "service %s is %s", service.Name, result)
	}
	var services corev1.ServiceList
	if err := r.List(ctx, &services, client.InNamespace(req.Namespace), client.MatchingFields{nameIndex: req.Name}); err != nil {
		return ctrl.Result{}, err
	}
	before := deployment.DeepCopy()
	if deployment.Annotations == nil {
		deployment.Annotations = map[string]string{}
	}
	deployment.Annotations["example.com/exposed"] = service.Name
	if err := r.Patch(ctx, &deployment, client.MergeFrom(before), client.FieldOwner("expose")); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Hour}, nil
}

// SetupWithManager has the reconciler run when something changes.
func (r *ExposeReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Service{}, nameIndex, func(o client.Object) []string {
		return []string{o.(*corev1.Service).Spec.Selector["app"]}
	}); err != nil {
		return err
	}
	labelled := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[label] != "" })
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}, builder.WithPredicates(predicate.And(labelled, predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})))).
		Owns(&corev1.Service{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.ofConfig), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
			},
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Named("expose").
		Complete(r)
}

func (r *ExposeReconciler) ofConfig(_ context.Context, config client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetLabels()["for"]}}}
}
