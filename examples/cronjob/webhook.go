package main

import (
	"context"

	"github.com/kapok-dev/kapok/ctrl"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/webhook"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxName leaves room for the suffix of job names: a dash and ten digits.
const maxName = validation.DNS1035LabelMaxLength - 11

// setupWebhooks adds the webhooks of CronJobs to the webhook server of a manager.
func setupWebhooks(mgr ctrl.Manager) error {
	return webhook.NewWebhookManagedBy(mgr, &batchv1.CronJob{}).
		WithDefaulter(defaulter{}).
		WithValidator(validator{}).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-batch-tutorial-kubebuilder-io-v1-cronjob,mutating=true,failurePolicy=fail,groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=create;update,versions=v1,name=mcronjob.kb.io,sideEffects=None,admissionReviewVersions=v1

// defaulter sets the defaults of a CronJob.
type defaulter struct{}

func (defaulter) Default(_ context.Context, cronJob *batchv1.CronJob) error {
	spec := &cronJob.Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	if spec.Suspend == nil {
		spec.Suspend = new(false)
	}
	if spec.SuccessfulJobsHistoryLimit == nil {
		spec.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	if spec.FailedJobsHistoryLimit == nil {
		spec.FailedJobsHistoryLimit = new(int32(1))
	}
	return nil
}

// +kubebuilder:webhook:path=/validate-batch-tutorial-kubebuilder-io-v1-cronjob,mutating=false,failurePolicy=fail,groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=create;update;delete,versions=v1,name=vcronjob.kb.io,sideEffects=None,admissionReviewVersions=v1

// validator checks what the schema of a CronJob cannot express.
type validator struct{}

func (validator) ValidateCreate(_ context.Context, cronJob *batchv1.CronJob) (webhook.Warnings, error) {
	return nil, validate(cronJob)
}

func (validator) ValidateUpdate(_ context.Context, _, cronJob *batchv1.CronJob) (webhook.Warnings, error) {
	return nil, validate(cronJob)
}

func (validator) ValidateDelete(context.Context, *batchv1.CronJob) (webhook.Warnings, error) {
	return nil, nil
}

// validate returns an Invalid error with all problems of a CronJob, or nil.
func validate(cronJob *batchv1.CronJob) error {
	var errs field.ErrorList
	if name := cronJob.Name; len(name) > maxName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, "must be no more than 52 characters"))
	}
	if _, err := parseSchedule(cronJob.Spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "schedule"), cronJob.Spec.Schedule, err.Error()))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(batchv1.GroupVersion.WithKind("CronJob").GroupKind(), cronJob.Name, errs)
}
