package servicecidr_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "service-cidr-controller"

// TestInvariants checks after random histories that every range which is not being deleted is
// Ready, that those which remain although they are deleted are needed, and that no range has gone
// while only it had the address of a Service. Of several ranges with an address, one is deleted at
// a time.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 12 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, Lost: 0.02, DelayWatch: 0.1, CutWatch: 0.02,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { play(t, env, r) }, opts...)
		})
	}
}

var ranges = map[string]string{"a": "10.200.0.0/28", "b": "10.200.0.0/24", "c": "10.200.0.16/28", "d": "10.200.1.0/28"}

func play(t *testing.T, env *kapoktest.Env, r *rand.Rand) {
	controllertest.Run(t, env, name)
	names := []string{"a", "b", "c", "d"}
	for range 60 {
		which := names[r.IntN(len(names))]
		c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: which}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{ranges[which]}}}
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", r.IntN(6))}, Spec: corev1.ServiceSpec{
			ClusterIP: fmt.Sprintf("10.200.%d.%d", r.IntN(2), 1+r.IntN(40)), Ports: []corev1.ServicePort{{Port: 80}},
		}}
		// Any of these may be refused: what exists, has gone, or is in no range.
		switch r.IntN(6) {
		case 0, 1:
			_ = env.Client().Create(t.Context(), c)
		case 2:
			if !slices.ContainsFunc(all(t, env), func(c networkingv1.ServiceCIDR) bool { return c.DeletionTimestamp != nil }) {
				_ = env.Client().Delete(t.Context(), c)
			}
		case 3, 4:
			_ = env.Client().Create(t.Context(), s)
		case 5:
			_ = env.Client().Delete(t.Context(), s)
		}
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(15000)) * time.Millisecond)
		}
	}
	env.EndFaults()
	time.Sleep(time.Hour)
	check(t, env)
	if n := controllertest.Writes(env, 2*time.Hour); n > 0 {
		t.Errorf("%d writes at rest", n)
	}
}

func all(t *testing.T, env *kapoktest.Env) []networkingv1.ServiceCIDR {
	var list networkingv1.ServiceCIDRList
	for range 100 {
		if env.Client().List(t.Context(), &list) == nil {
			return list.Items
		}
	}
	t.Fatal("cannot list the ranges")
	return nil
}

func check(t *testing.T, env *kapoktest.Env) {
	t.Helper()
	items := all(t, env)
	var services corev1.ServiceList
	if err := env.Client().List(t.Context(), &services); err != nil {
		t.Fatal(err)
	}
	within := func(c networkingv1.ServiceCIDR, s corev1.Service) bool {
		return netip.MustParsePrefix(c.Spec.CIDRs[0]).Contains(netip.MustParseAddr(s.Spec.ClusterIP))
	}
	for _, s := range services.Items {
		if !slices.ContainsFunc(items, func(c networkingv1.ServiceCIDR) bool { return within(c, s) }) {
			t.Errorf("no range has %s of %s", s.Spec.ClusterIP, s.Name)
		}
	}
	for _, c := range items {
		ready := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
		if !slices.Contains(c.Finalizers, "networking.k8s.io/service-cidr-finalizer") || ready == nil {
			t.Errorf("%s has the finalizers %v and the condition %v", c.Name, c.Finalizers, ready)
			continue
		}
		if (ready.Status == metav1.ConditionTrue) != (c.DeletionTimestamp == nil) {
			t.Errorf("%s: deleted %v, Ready %s", c.Name, c.DeletionTimestamp, ready.Status)
		}
		if c.DeletionTimestamp != nil && !slices.ContainsFunc(services.Items, func(s corev1.Service) bool { return within(c, s) }) {
			t.Errorf("%s remains without an address in use", c.Name)
		}
	}
}

// TestRefused counts the writes of a controller whose writes are refused.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, name)
		env.Create(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/28"}}})
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, 10*time.Hour); n < 30 || n > 90 {
			t.Errorf("%d writes in ten hours for two ranges, want a backoff of up to 1,000 s", n)
		}
	})
}
