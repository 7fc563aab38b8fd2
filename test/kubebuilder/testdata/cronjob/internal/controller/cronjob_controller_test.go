package controller

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1 "tutorial.kubebuilder.io/project/api/v1"
)

var _ = Describe("CronJob controller", func() {
	Context("CronJob controller test", func() {
		const cronJobName = "test-cronjob"

		ctx := context.Background()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cronJobName}}
		key := types.NamespacedName{Name: cronJobName, Namespace: cronJobName}
		cronJob := &batchv1.CronJob{}

		SetDefaultEventuallyTimeout(2 * time.Minute)
		SetDefaultEventuallyPollingInterval(time.Second)

		pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers:    []corev1.Container{{Name: "test-container", Image: "test-image"}},
			RestartPolicy: corev1.RestartPolicyOnFailure,
		}}
		// newJob makes a job that belongs to the CronJob.
		newJob := func(name string) *kbatch.Job {
			owner := metav1.NewControllerRef(cronJob, batchv1.GroupVersion.WithKind("CronJob"))
			return &kbatch.Job{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cronJobName, OwnerReferences: []metav1.OwnerReference{*owner}},
				Spec:       kbatch.JobSpec{Template: pods},
			}
		}

		BeforeEach(func() {
			By("creating the namespace of the test")
			err := k8sClient.Get(ctx, types.NamespacedName{Name: cronJobName}, &corev1.Namespace{})
			if err != nil && errors.IsNotFound(err) {
				Expect(k8sClient.Create(ctx, namespace)).To(Succeed())
			}

			By("creating the custom resource for the kind CronJob")
			cronJob = &batchv1.CronJob{}
			err = k8sClient.Get(ctx, key, cronJob)
			if err != nil && errors.IsNotFound(err) {
				cronJob = &batchv1.CronJob{
					ObjectMeta: metav1.ObjectMeta{Name: cronJobName, Namespace: cronJobName},
					Spec: batchv1.CronJobSpec{
						Schedule:    "0 0 29 2 *", // not while the test runs
						JobTemplate: kbatch.JobTemplateSpec{Spec: kbatch.JobSpec{Template: pods}},
					},
				}
				Expect(k8sClient.Create(ctx, cronJob)).To(Succeed())
			}
		})

		AfterEach(func() {
			By("removing the custom resource for the kind CronJob")
			found := &batchv1.CronJob{}
			Expect(k8sClient.Get(ctx, key, found)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Delete(context.TODO(), found)).To(Succeed())
			}).Should(Succeed())

			// Nobody ends it in envtest, and so it stays.
			By("deleting the namespace of the test")
			_ = k8sClient.Delete(ctx, namespace)
		})

		It("should successfully reconcile a custom resource for CronJob", func() {
			By("checking that the custom resource is there")
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, key, &batchv1.CronJob{})).To(Succeed())
			}).Should(Succeed())

			By("checking that the controller gives it conditions")
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, key, cronJob)).To(Succeed())
				g.Expect(cronJob.Status.Conditions).NotTo(BeEmpty())
			}).Should(Succeed())

			By("checking that it has no active jobs")
			Consistently(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, key, cronJob)).To(Succeed())
				g.Expect(cronJob.Status.Active).To(BeEmpty())
			}).WithTimeout(time.Second * 10).WithPolling(time.Millisecond * 250).Should(Succeed())

			By("creating a job that belongs to it")
			testJob := newJob("test-job")
			Expect(k8sClient.Create(ctx, testJob)).To(Succeed())
			testJob.Status.Active = 2
			Expect(k8sClient.Status().Update(ctx, testJob)).To(Succeed())

			By("checking that the status has that one active job")
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, key, cronJob)).To(Succeed())
				g.Expect(cronJob.Status.Active).To(HaveLen(1), "one job is active")
				g.Expect(cronJob.Status.Active[0].Name).To(Equal("test-job"))
			}).Should(Succeed())

			By("checking the condition that tells of active jobs")
			Expect(k8sClient.Get(ctx, key, cronJob)).To(Succeed())
			var conditions []metav1.Condition
			Expect(cronJob.Status.Conditions).To(ContainElement(HaveField("Type", Equal("Available")), &conditions))
			Expect(conditions).To(HaveLen(1))
			Expect(conditions[0].Status).To(Equal(metav1.ConditionTrue))
			Expect(conditions[0].Reason).To(Equal("JobsActive"))

			By("limiting how many finished jobs are kept")
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, key, cronJob)).To(Succeed())
				cronJob.Spec.FailedJobsHistoryLimit = new(int32(1))
				cronJob.Spec.SuccessfulJobsHistoryLimit = new(int32(1))
				g.Expect(k8sClient.Update(ctx, cronJob)).To(Succeed())
			}).Should(Succeed())

			finish := func(name string, outcome kbatch.JobConditionType, start time.Time) {
				job := newJob(name)
				Expect(k8sClient.Create(ctx, job)).To(Succeed())
				job.Status.StartTime = new(metav1.NewTime(start))
				first := kbatch.JobFailureTarget
				if outcome == kbatch.JobComplete {
					first = kbatch.JobSuccessCriteriaMet
					job.Status.CompletionTime = new(metav1.NewTime(start))
				}
				job.Status.Conditions = []kbatch.JobCondition{
					{Type: first, Status: corev1.ConditionTrue},
					{Type: outcome, Status: corev1.ConditionTrue},
				}
				Expect(k8sClient.Status().Update(ctx, job)).To(Succeed())
			}
			now := time.Now()
			finish("failed-old", kbatch.JobFailed, now.Add(-time.Minute))
			finish("failed-new", kbatch.JobFailed, now.Add(time.Second))
			finish("successful-old", kbatch.JobComplete, now.Add(-time.Minute))
			finish("successful-new", kbatch.JobComplete, now.Add(time.Second))

			By("checking that old finished jobs go")
			Eventually(func(g Gomega) {
				for name, kept := range map[string]bool{"failed-old": false, "failed-new": true, "successful-old": false, "successful-new": true} {
					err := k8sClient.Get(ctx, types.NamespacedName{Name: name, Namespace: cronJobName}, &kbatch.Job{})
					if kept {
						g.Expect(err).NotTo(HaveOccurred(), name)
					} else {
						g.Expect(errors.IsNotFound(err)).To(BeTrue(), name)
					}
				}
			}).Should(Succeed())
		})
	})
})
