// Package v1 has the webhooks of CronJobs: what is filled in, and what is refused, before one is kept.
package v1

import (
	"context"

	"github.com/robfig/cron/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	batchv1 "tutorial.kubebuilder.io/project/api/v1"
)

// SetupCronJobWebhookWithManager has the webhook server of a manager serve the webhooks.
func SetupCronJobWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &batchv1.CronJob{}).
		WithValidator(&CronJobValidator{}).
		WithDefaulter(&CronJobDefaulter{
			DefaultConcurrencyPolicy:          batchv1.AllowConcurrent,
			DefaultSuspend:                    false,
			DefaultSuccessfulJobsHistoryLimit: 3,
			DefaultFailedJobsHistoryLimit:     1,
		}).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-batch-tutorial-kubebuilder-io-v1-cronjob,mutating=true,failurePolicy=fail,sideEffects=None,groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=create;update,versions=v1,name=mcronjob-v1.kb.io,admissionReviewVersions=v1

// CronJobDefaulter fills in what a CronJob leaves open.
type CronJobDefaulter struct {
	DefaultConcurrencyPolicy          batchv1.ConcurrencyPolicy
	DefaultSuspend                    bool
	DefaultSuccessfulJobsHistoryLimit int32
	DefaultFailedJobsHistoryLimit     int32
}

// Default fills in.
func (d *CronJobDefaulter) Default(_ context.Context, cronJob *batchv1.CronJob) error {
	spec := &cronJob.Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = d.DefaultConcurrencyPolicy
	}
	if spec.Suspend == nil {
		spec.Suspend = new(d.DefaultSuspend)
	}
	if spec.SuccessfulJobsHistoryLimit == nil {
		spec.SuccessfulJobsHistoryLimit = new(d.DefaultSuccessfulJobsHistoryLimit)
	}
	if spec.FailedJobsHistoryLimit == nil {
		spec.FailedJobsHistoryLimit = new(d.DefaultFailedJobsHistoryLimit)
	}
	return nil
}

// +kubebuilder:webhook:path=/validate-batch-tutorial-kubebuilder-io-v1-cronjob,mutating=false,failurePolicy=fail,sideEffects=None,groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=create;update,versions=v1,name=vcronjob-v1.kb.io,admissionReviewVersions=v1

// CronJobValidator refuses what the schema of a CronJob cannot tell.
type CronJobValidator struct{}

// ValidateCreate refuses a new CronJob.
func (v *CronJobValidator) ValidateCreate(_ context.Context, cronJob *batchv1.CronJob) (admission.Warnings, error) {
	return nil, validate(cronJob)
}

// ValidateUpdate refuses a change.
func (v *CronJobValidator) ValidateUpdate(_ context.Context, _, cronJob *batchv1.CronJob) (admission.Warnings, error) {
	return nil, validate(cronJob)
}

// ValidateDelete refuses nothing: the manifest does not ask for it.
func (v *CronJobValidator) ValidateDelete(context.Context, *batchv1.CronJob) (admission.Warnings, error) {
	return nil, nil
}

// maxName leaves room for what follows the name of the CronJob in that of a job: a dash and ten digits.
const maxName = validation.DNS1035LabelMaxLength - 11

// validate returns an Invalid of all that is wrong, or nil.
func validate(cronJob *batchv1.CronJob) error {
	var errs field.ErrorList
	if len(cronJob.Name) > maxName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), cronJob.Name, "must be no more than 52 characters"))
	}
	if _, err := cron.ParseStandard(cronJob.Spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "schedule"), cronJob.Spec.Schedule, err.Error()))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(batchv1.GroupVersion.WithKind("CronJob").GroupKind(), cronJob.Name, errs)
}
