package nodeipam_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/controllers/nodeipam"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		options nodeipam.Options
		want    string // in the error; "" for no error
	}{
		{nodeipam.Options{}, ""},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/8")}, ""},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/24")}, ""},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/16", "fd00::/48")}, ""},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/25")}, "no ranges of mask size 24"},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/16"), NodeCIDRMaskSizeIPv4: 33}, "no ranges of mask size 33"},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/16", "10.1.0.0/16")}, "the same family"},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/16", "fd00::/48", "10.1.0.0/16")}, "3 ranges"},
		{nodeipam.Options{ClusterCIDRs: prefixes("fd00::/47")}, "more than 16 above"},
		{nodeipam.Options{ClusterCIDRs: []netip.Prefix{{}}}, "invalid"},
		{nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/16"), ServiceCIDRs: []netip.Prefix{{}}}, "invalid"},
	} {
		if err := tc.options.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.options, err, tc.want)
		}
	}
}

// start runs the controller until stop is called.
func start(env *kapoktest.Env, o nodeipam.Options) (stop func()) {
	options := controllers.Options{Names: []string{"nodeipam"}, NodeIPAM: o}
	options.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(env.Config(), options)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(env.Context())
	done := make(chan struct{})
	env.Go(func(context.Context) error {
		defer close(done)
		return m.Start(ctx)
	})
	return func() {
		cancel()
		<-done
	}
}

// TestInvariants lets nodes come and go, some with a range of their own, and the controller start
// again, at random, with and without faults of the server:
//
//   - At no time two nodes have ranges that overlap.
//   - No node has a range of services, or one outside those of the cluster.
//   - In the end each node has its ranges, as far as there are enough: with one node less than
//     ranges, all nodes.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var opts []kapoktest.Option
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i)))}
			if i%2 == 1 {
				h.faults = true
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, Lost: 0.05, DelayWatch: 0.1, CutWatch: 0.02}))
			}
			h.options = nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/20"), ServiceCIDRs: prefixes("10.0.4.0/23")}
			if i%4 > 1 {
				h.options.ClusterCIDRs = prefixes("10.0.0.0/20", "fd00::/60")
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h.env = env
				h.play(t)
			}, opts...)
		})
	}
}

// A history is a random one. There are 14 ranges of IPv4.
type history struct {
	env     *kapoktest.Env
	r       *rand.Rand
	faults  bool
	options nodeipam.Options
	nodes   []string
	count   int
}

const ranges = 14

func (h *history) play(t *testing.T) {
	stop := start(h.env, h.options)
	for range 120 {
		switch h.r.IntN(8) {
		case 0, 1, 2:
			if len(h.nodes) < ranges+3 {
				h.create(t)
			}
		case 3, 4:
			if len(h.nodes) > 0 {
				h.remove(h.r.IntN(len(h.nodes)))
			}
		case 5:
			if h.r.IntN(3) == 0 {
				stop()
				stop = start(h.env, h.options)
			}
		default:
			time.Sleep(time.Duration(h.r.IntN(2000)) * time.Millisecond)
		}
		h.check(t)
	}
	for len(h.nodes) > ranges-1 {
		h.remove(0)
	}
	time.Sleep(time.Hour) // of pauses after refusals
	if n := h.check(t); n != len(h.nodes) {
		t.Errorf("%d of %d nodes have ranges", n, len(h.nodes))
	}
	stop()
}

func (h *history) create(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", h.count)}}
	h.count++
	if !h.faults && h.r.IntN(5) == 0 {
		h.env.Settle() // no range is on its way to a node
		if own := fmt.Sprintf("10.0.%d.0/24", h.r.IntN(4)); !h.used(t, own) {
			n.Spec.PodCIDR, n.Spec.PodCIDRs = own, []string{own}
			if len(h.options.ClusterCIDRs) > 1 {
				v6 := netip.MustParsePrefix(fmt.Sprintf("fd00:0:0:%x::/64", h.r.IntN(16))).String() // 0 is fd00::/64
				if h.used(t, v6) {
					return
				}
				n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, v6)
			}
		}
	}
	h.env.Create(n)
	h.nodes = append(h.nodes, n.Name)
}

func (h *history) remove(i int) {
	h.env.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.nodes[i]}})
	h.nodes = append(h.nodes[:i], h.nodes[i+1:]...)
}

func (h *history) list(t *testing.T) []corev1.Node {
	var list corev1.NodeList
	var err error
	for range 100 { // injected faults
		if err = h.env.Client().List(h.env.Context(), &list, &client.ListOptions{}); err == nil {
			return list.Items
		}
	}
	t.Fatal(err)
	return nil
}

func (h *history) used(t *testing.T, cidr string) bool {
	for _, n := range h.list(t) {
		for _, has := range n.Spec.PodCIDRs {
			if has == cidr {
				return true
			}
		}
	}
	return false
}

// check checks the ranges of all nodes, and returns how many have some.
func (h *history) check(t *testing.T) (with int) {
	owners := map[netip.Prefix]string{}
	for _, n := range h.list(t) {
		if len(n.Spec.PodCIDRs) > 0 {
			with++
		}
		if with > 0 && len(n.Spec.PodCIDRs) != 0 && len(n.Spec.PodCIDRs) != len(h.options.ClusterCIDRs) {
			t.Errorf("%s has the ranges %v", n.Name, n.Spec.PodCIDRs)
		}
		for i, text := range n.Spec.PodCIDRs {
			p := netip.MustParsePrefix(text)
			for other, owner := range owners {
				if p.Overlaps(other) {
					t.Errorf("%s has %v, and %s has %v", n.Name, p, owner, other)
				}
			}
			owners[p] = n.Name
			if cluster := h.options.ClusterCIDRs[i]; !cluster.Contains(p.Addr()) || p.Overlaps(h.options.ServiceCIDRs[0]) {
				t.Errorf("%s has %v", n.Name, p)
			}
		}
	}
	return with
}

// TestWaiting checks that a node without a range has one as soon as another has gone, and that
// nothing is written before.
func TestWaiting(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		defer start(env, nodeipam.Options{ClusterCIDRs: prefixes("10.0.0.0/23")})()
		var nodes []*corev1.Node
		for i := range 4 {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
			env.Create(n)
			nodes = append(nodes, n)
			env.Settle()
		}
		before := len(env.Writes())
		time.Sleep(time.Hour)
		if n := len(env.Writes()) - before; n > 0 {
			t.Errorf("%d writes, want none: %v", n, env.Writes()[before:])
		}
		env.Delete(nodes[0])
		env.Settle()
		for i, want := range map[int]string{1: "10.0.1.0/24", 2: "10.0.0.0/24", 3: ""} {
			if env.Get(nodes[i]); nodes[i].Spec.PodCIDR != want {
				t.Errorf("n%d has %q, want %q", i, nodes[i].Spec.PodCIDR, want)
			}
		}
	})
}
