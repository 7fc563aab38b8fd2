package controller

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("failing", func() {
	nothing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "nothing", Namespace: "default"}}

	It("method", func() {
		testEnv.Get(nothing)
	})

	It("wait", func(ctx SpecContext) {
		testEnv.WaitFor(ctx, nothing, func() bool { return false })
	})

	It("beside", func() {
		testEnv.Go(func(context.Context) error { return errors.New("beside the spec") })
		time.Sleep(time.Second)
	})

	It("timeout", func(ctx SpecContext) {
		Eventually(ctx, func() int { return 1 }).Should(Equal(2))
	}, SpecTimeout(time.Second))

	It("end of the context", func(ctx SpecContext) {
		<-ctx.Done()
	}, SpecTimeout(time.Second))
})

var _ = Describe("passing", func() {
	It("and something fails after the last spec", func() {
		time.Sleep(time.Second) // the manager has started: one that must stop before does not sleep
		testEnv.Go(func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("after the specs")
		})
	})
})
