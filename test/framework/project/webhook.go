package main

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// SetupWebhook has the manager serve the webhooks of Deployments.
func SetupWebhook(mgr manager.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &appsv1.Deployment{}).WithDefaulter(&Defaulter{}).WithValidator(&Validator{}).Complete()
}

// Defaulter fills in what is not said.
type Defaulter struct{}

// Default sets the label.
func (*Defaulter) Default(_ context.Context, d *appsv1.Deployment) error {
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	if _, set := d.Labels[label]; !set {
		d.Labels[label] = "yes"
	}
	return nil
}

// Validator refuses what is wrong.
type Validator struct{}

// ValidateCreate wants a selector of app.
func (*Validator) ValidateCreate(_ context.Context, d *appsv1.Deployment) (admission.Warnings, error) {
	if d.Spec.Selector == nil || d.Spec.Selector.MatchLabels["app"] == "" {
		return nil, errors.New("spec.selector must have app")
	}
	return nil, nil
}

// ValidateUpdate does so, too.
func (v *Validator) ValidateUpdate(ctx context.Context, _, d *appsv1.Deployment) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, d)
}

// ValidateDelete lets everything go.
func (*Validator) ValidateDelete(context.Context, *appsv1.Deployment) (admission.Warnings, error) {
	return admission.Warnings{"the service goes, too"}, nil
}
