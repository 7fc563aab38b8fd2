// Package v1 has the webhooks of the types of package api/v1.
package v1

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	shopv1 "github.com/kapok-dev/kapok/test/framework/scaffold/api/v1"
)

var widgetlog = logf.Log.WithName("widget-resource")

// SetupWidgetWebhookWithManager registers the webhooks of Widget.
func SetupWidgetWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &shopv1.Widget{}).
		WithValidator(&WidgetCustomValidator{}).
		WithDefaulter(&WidgetCustomDefaulter{DefaultSize: 1}).
		Complete()
}

// WidgetCustomDefaulter fills in the size.
type WidgetCustomDefaulter struct {
	DefaultSize int32
}

// Default fills in what is not there.
func (d *WidgetCustomDefaulter) Default(_ context.Context, obj *shopv1.Widget) error {
	widgetlog.Info("Defaulting for Widget", "name", obj.GetName())
	if obj.Spec.Size == 0 {
		obj.Spec.Size = d.DefaultSize
	}
	return nil
}

// WidgetCustomValidator refuses Widgets without a size.
type WidgetCustomValidator struct{}

// ValidateCreate looks at a new Widget.
func (v *WidgetCustomValidator) ValidateCreate(_ context.Context, obj *shopv1.Widget) (admission.Warnings, error) {
	if obj.Spec.Size < 1 {
		return nil, errors.New("spec.size must be positive")
	}
	return nil, nil
}

// ValidateUpdate looks at a Widget that changes.
func (v *WidgetCustomValidator) ValidateUpdate(ctx context.Context, _, obj *shopv1.Widget) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, obj)
}

// ValidateDelete allows everything.
func (v *WidgetCustomValidator) ValidateDelete(context.Context, *shopv1.Widget) (admission.Warnings, error) {
	return nil, nil
}
