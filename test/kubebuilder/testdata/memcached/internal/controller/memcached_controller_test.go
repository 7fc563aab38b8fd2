package controller

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cachev1 "example.com/memcached/api/v1"
)

var _ = Describe("Memcached Controller", func() {
	Context("When reconciling a resource", func() {
		const resourceName = "test-resource"

		ctx := context.Background()
		key := types.NamespacedName{Name: resourceName, Namespace: "default"}
		memcached := &cachev1.Memcached{}

		var recorder *events.FakeRecorder
		var controllerReconciler *MemcachedReconciler
		reconcileOnce := func() {
			GinkgoHelper()
			_, err := controllerReconciler.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			Expect(err).NotTo(HaveOccurred())
		}

		BeforeEach(func() {
			By("creating the custom resource for the kind Memcached")
			err := k8sClient.Get(ctx, key, memcached)
			if err != nil && errors.IsNotFound(err) {
				resource := &cachev1.Memcached{
					ObjectMeta: metav1.ObjectMeta{Name: resourceName, Namespace: "default"},
					Spec:       cachev1.MemcachedSpec{Size: new(int32(2))},
				}
				Expect(k8sClient.Create(ctx, resource)).To(Succeed())
			}
			recorder = events.NewFakeRecorder(10)
			controllerReconciler = &MemcachedReconciler{Client: k8sClient, Scheme: k8sClient.Scheme(), Recorder: recorder}
		})

		AfterEach(func() {
			By("deleting the resource, which its finalizer keeps until the controller has seen it")
			resource := &cachev1.Memcached{}
			Expect(k8sClient.Get(ctx, key, resource)).To(Succeed())
			Expect(k8sClient.Delete(ctx, resource)).To(Succeed())
			Expect(k8sClient.Get(ctx, key, resource)).To(Succeed())
			reconcileOnce()
			Expect(errors.IsNotFound(k8sClient.Get(ctx, key, resource))).To(BeTrue())

			By("deleting the Deployment, which no garbage collector does in envtest")
			Expect(k8sClient.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}})).To(Succeed())
		})

		It("should successfully reconcile the resource", func() {
			By("reconciling the created resource")
			reconcileOnce()

			By("checking that there is a Deployment")
			deployment := &appsv1.Deployment{}
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, key, deployment)).To(Succeed())
			}).Should(Succeed())
			Expect(deployment.Spec.Replicas).To(HaveValue(Equal(int32(2))))
			Expect(deployment.Spec.Template.Spec.Containers[0].Ports).To(ContainElement(HaveField("ContainerPort", Equal(int32(11211)))))
			Expect(recorder.Events).To(Receive(ContainSubstring("Created")))

			By("checking that it is not available yet")
			Expect(k8sClient.Get(ctx, key, memcached)).To(Succeed())
			var conditions []metav1.Condition
			Expect(memcached.Status.Conditions).To(ContainElement(HaveField("Type", Equal(typeAvailableMemcached)), &conditions))
			Expect(conditions).To(HaveLen(1), "conditions of type %s", typeAvailableMemcached)
			Expect(conditions[0].Status).To(Equal(metav1.ConditionFalse))

			By("having all instances ready, as no kubelet does it in envtest")
			deployment.Status.Replicas, deployment.Status.ReadyReplicas = 2, 2
			Expect(k8sClient.Status().Update(ctx, deployment)).To(Succeed())
			reconcileOnce()
			Expect(k8sClient.Get(ctx, key, memcached)).To(Succeed())
			Expect(memcached.Status.Ready).To(Equal(int32(2)))
			Expect(memcached.Status.Conditions).To(ContainElement(And(
				HaveField("Type", Equal(typeAvailableMemcached)), HaveField("Status", Equal(metav1.ConditionTrue)),
				HaveField("Reason", Equal("Reconciling")))))
		})

		It("should write nothing when there is nothing to do", func() {
			reconcileOnce()
			before := &appsv1.Deployment{}
			Expect(k8sClient.Get(ctx, key, before)).To(Succeed())
			reconcileOnce()
			after := &appsv1.Deployment{}
			Expect(k8sClient.Get(ctx, key, after)).To(Succeed())
			Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
		})

		It("should follow the size, within its bounds", func() {
			reconcileOnce()
			Expect(k8sClient.Get(ctx, key, memcached)).To(Succeed())
			memcached.Spec.Size = new(int32(3))
			Expect(k8sClient.Update(ctx, memcached)).To(Succeed())
			reconcileOnce()
			deployment := &appsv1.Deployment{}
			Expect(k8sClient.Get(ctx, key, deployment)).To(Succeed())
			Expect(deployment.Spec.Replicas).To(HaveValue(Equal(int32(3))))

			Expect(k8sClient.Get(ctx, key, memcached)).To(Succeed())
			memcached.Spec.Size = new(int32(6))
			Expect(k8sClient.Update(ctx, memcached)).To(MatchError(ContainSubstring("spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5")))
		})
	})
})
