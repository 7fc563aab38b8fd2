// Package controller has the controllers.
package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shopv1 "github.com/kapok-dev/kapok/test/framework/scaffold/api/v1"
)

// WidgetReconciler keeps a ConfigMap for each Widget.
type WidgetReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=shop.example.com,resources=widgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=shop.example.com,resources=widgets/status,verbs=get;update;patch

// Reconcile brings the ConfigMap of one Widget in line with it.
func (r *WidgetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)
	var widget shopv1.Widget
	if err := r.Get(ctx, req.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	box := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: widget.Namespace, Name: widget.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, box, func() error {
		box.Data = map[string]string{"for": widget.Name}
		return ctrl.SetControllerReference(&widget, box, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	log.Info("Reconciled", "result", result)
	meta.SetStatusCondition(&widget.Status.Conditions, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Boxed"})
	return ctrl.Result{}, r.Status().Update(ctx, &widget)
}

// SetupWithManager has a manager run the controller.
func (r *WidgetReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&shopv1.Widget{}).
		Owns(&corev1.ConfigMap{}).
		Named("widget").
		Complete(r)
}
