package scenarios_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/scenarios"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestKapok plays the scenarios with Kapok's controllers, in virtual time. It also checks that
// these change no object that they share with their cache.
func TestKapok(t *testing.T) {
	scenarios.Run(t, scenarios.Options{
		Dir: "testdata",
		Play: func(t *testing.T, flags []string, with func(*testing.T, scenarios.World)) {
			options, err := optionsOf(flags)
			if err != nil {
				t.Fatal(err)
			}
			options.Manager.Cache.MutationDetected = func(kind schema.GroupVersionKind, key client.ObjectKey, diff string) {
				t.Errorf("the %s %s of the cache was changed:\n%s", kind.Kind, key, diff)
			}
			options.PodAutoscaler.SyncPeriod = time.Second // as the oracle's
			var listener *memoryListener                   // made in the bubble
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.dial(ctx) }
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				config := env.As("script", "system:masters")
				listener = &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
				metrics, err := scenarios.ServeMetrics(config, listener, "metrics.example.com", 443)
				if err != nil {
					t.Fatal(err)
				}
				defer metrics.Close()
				with(t, scenarios.World{Config: config, Settle: settle, Metrics: metrics})
			}, kapoktest.Controllers(options), kapoktest.Server(func(o *kapok.Options) { o.Aggregation.Dial = dial }))
		},
	})
}

// A memoryListener has the server side of connections that are not of the operating system.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

// optionsOf returns the options that flags of kube-controller-manager stand for.
func optionsOf(flags []string) (o controllers.Options, err error) {
	f := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	var names, cluster, service []string
	var size int
	f.StringSliceVar(&names, "controllers", nil, "")
	f.StringSliceVar(&cluster, "cluster-cidr", nil, "")
	f.StringSliceVar(&service, "service-cluster-ip-range", nil, "")
	f.Bool("allocate-node-cidrs", false, "")
	f.IntVar(&size, "node-cidr-mask-size", 0, "")
	f.IntVar(&o.NodeIPAM.NodeCIDRMaskSizeIPv4, "node-cidr-mask-size-ipv4", 0, "")
	f.IntVar(&o.NodeIPAM.NodeCIDRMaskSizeIPv6, "node-cidr-mask-size-ipv6", 0, "")
	l := &o.NodeLifecycle
	f.Duration("node-monitor-period", 0, "") // Kapok's waits for no turn
	f.DurationVar(&l.NodeMonitorGracePeriod, "node-monitor-grace-period", 0, "")
	f.DurationVar(&l.NodeStartupGracePeriod, "node-startup-grace-period", 0, "")
	f.Float64Var(&l.NodeEvictionRate, "node-eviction-rate", 0, "")
	f.Float64Var(&l.SecondaryNodeEvictionRate, "secondary-node-eviction-rate", 0, "")
	f.IntVar(&l.LargeClusterSizeThreshold, "large-cluster-size-threshold", 0, "")
	f.Float64Var(&l.UnhealthyZoneThreshold, "unhealthy-zone-threshold", 0, "")
	if err := f.Parse(flags); err != nil {
		return o, err
	}
	for _, name := range names {
		if slices.Contains(controllers.Names(), name) { // the server does what others do
			o.Names = append(o.Names, name)
		}
	}
	if size > 0 {
		o.NodeIPAM.NodeCIDRMaskSizeIPv4, o.NodeIPAM.NodeCIDRMaskSizeIPv6 = size, size
	}
	o.NodeIPAM.ClusterCIDRs, err = prefixes(cluster)
	if err == nil {
		o.NodeIPAM.ServiceCIDRs, err = prefixes(service)
	}
	return o, err
}

func prefixes(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// settle waits until nothing has changed for a second and a half, as the oracle does.
func settle(_ context.Context, busy func() bool) error {
	busy()
	for quiet := 0; quiet < 15; quiet++ {
		time.Sleep(100 * time.Millisecond)
		if busy() {
			quiet = -1
		}
	}
	return nil
}
