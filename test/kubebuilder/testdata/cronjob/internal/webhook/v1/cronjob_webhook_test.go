package v1

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1 "tutorial.kubebuilder.io/project/api/v1"
)

var _ = Describe("CronJob Webhook", func() {
	const (
		validName = "valid-cronjob-name"
		schedule  = "*/5 * * * *"
	)
	var (
		tooLong   = strings.Repeat("long-", 15)
		obj       *batchv1.CronJob
		oldObj    *batchv1.CronJob
		validator CronJobValidator
		defaulter CronJobDefaulter
	)

	BeforeEach(func() {
		obj = &batchv1.CronJob{Spec: batchv1.CronJobSpec{
			Schedule:                   schedule,
			ConcurrencyPolicy:          batchv1.AllowConcurrent,
			SuccessfulJobsHistoryLimit: new(int32(3)),
			FailedJobsHistoryLimit:     new(int32(1)),
		}}
		oldObj = obj.DeepCopy()
		validator = CronJobValidator{}
		defaulter = CronJobDefaulter{
			DefaultConcurrencyPolicy:          batchv1.AllowConcurrent,
			DefaultSuccessfulJobsHistoryLimit: 3,
			DefaultFailedJobsHistoryLimit:     1,
		}
	})

	Context("When creating CronJob under Defaulting Webhook", func() {
		It("Should apply defaults where a field is empty", func() {
			obj.Spec.ConcurrencyPolicy = ""
			obj.Spec.Suspend = nil
			obj.Spec.SuccessfulJobsHistoryLimit = nil
			obj.Spec.FailedJobsHistoryLimit = nil

			Expect(defaulter.Default(ctx, obj)).To(Succeed())

			Expect(obj.Spec.ConcurrencyPolicy).To(Equal(batchv1.AllowConcurrent))
			Expect(obj.Spec.Suspend).To(HaveValue(BeFalse()))
			Expect(obj.Spec.SuccessfulJobsHistoryLimit).To(HaveValue(Equal(int32(3))))
			Expect(obj.Spec.FailedJobsHistoryLimit).To(HaveValue(Equal(int32(1))))
		})

		It("Should not overwrite fields that are set", func() {
			obj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
			obj.Spec.Suspend = new(true)
			obj.Spec.SuccessfulJobsHistoryLimit = new(int32(5))
			obj.Spec.FailedJobsHistoryLimit = new(int32(2))
			want := obj.DeepCopy()

			Expect(defaulter.Default(ctx, obj)).To(Succeed())

			Expect(obj).To(Equal(want))
		})
	})

	Context("When creating or updating CronJob under Validating Webhook", func() {
		It("Should deny creation if the name is too long", func() {
			obj.Name = tooLong
			Expect(validator.ValidateCreate(ctx, obj)).Error().To(MatchError(ContainSubstring("must be no more than 52 characters")))
		})

		It("Should admit creation if the name is valid", func() {
			obj.Name = validName
			Expect(validator.ValidateCreate(ctx, obj)).To(BeNil())
		})

		It("Should deny creation if the schedule is invalid", func() {
			obj.Spec.Schedule = "invalid-cron-schedule"
			Expect(validator.ValidateCreate(ctx, obj)).Error().To(MatchError(ContainSubstring("expected exactly 5 fields, found 1: [invalid-cron-schedule]")))
		})

		It("Should admit creation if the schedule is valid", func() {
			Expect(validator.ValidateCreate(ctx, obj)).To(BeNil())
		})

		It("Should deny update if both name and spec are invalid", func() {
			obj.Name, obj.Spec.Schedule = tooLong, "invalid-cron-schedule"
			Expect(validator.ValidateUpdate(ctx, oldObj, obj)).Error().To(And(
				MatchError(ContainSubstring("metadata.name")), MatchError(ContainSubstring("spec.schedule"))))
		})

		It("Should admit update if both name and spec are valid", func() {
			obj.Name, obj.Spec.Schedule = "valid-cronjob-name-updated", "0 0 * * *"
			Expect(validator.ValidateUpdate(ctx, oldObj, obj)).To(BeNil())
		})
	})

	Context("When the API server calls the webhooks", func() {
		BeforeEach(func() {
			obj = &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{Name: validName, Namespace: "default"},
				Spec: batchv1.CronJobSpec{
					Schedule: schedule,
					JobTemplate: kbatch.JobTemplateSpec{Spec: kbatch.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
						Containers:    []corev1.Container{{Name: "test-container", Image: "test-image"}},
						RestartPolicy: corev1.RestartPolicyOnFailure,
					}}}},
				},
			}
		})

		It("Should keep a CronJob with its defaults", func() {
			Expect(k8sClient.Create(ctx, obj)).To(Succeed())
			DeferCleanup(func() { Expect(k8sClient.Delete(ctx, obj)).To(Succeed()) })

			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			Expect(obj.Spec.ConcurrencyPolicy).To(Equal(batchv1.AllowConcurrent))
			Expect(obj.Spec.SuccessfulJobsHistoryLimit).To(HaveValue(Equal(int32(3))))
		})

		It("Should refuse a CronJob whose schedule is none", func() {
			obj.Spec.Schedule = "invalid-cron-schedule"
			Expect(k8sClient.Create(ctx, obj)).To(MatchError(And(
				ContainSubstring(`admission webhook "vcronjob-v1.kb.io" denied the request`), ContainSubstring("spec.schedule: Invalid value"))))
		})
	})
})
