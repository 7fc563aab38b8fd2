//go:build unix

package nodelifecycle_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkHeartbeat measures the processor time of a heartbeat of a node for server and
// controllers together: of its Lease, and of its status, with controllers and without.
func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		for _, by := range []string{"lease", "status"} {
			b.Run(fmt.Sprintf("%s/nodes=%d", by, n), func(b *testing.B) {
				benchmarkHeartbeat(b, n, by, kapok.Options{Controllers: controllers.Options{
					Names: []string{name, "taint-eviction-controller", "ttl-controller"},
				}})
			})
			b.Run(fmt.Sprintf("%s/nodes=%d/bare", by, n), func(b *testing.B) {
				benchmarkHeartbeat(b, n, by, kapok.Options{})
			})
		}
	}
}

func benchmarkHeartbeat(b *testing.B, n int, by string, o kapok.Options) {
	server, err := kapok.Start(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	cfg := server.Config()
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var nodes []*corev1.Node
	var leases []*coordinationv1.Lease
	for i := range n {
		node := newNode(fmt.Sprint("n", i), fmt.Sprint("z", i%3))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name}}
		lease.Spec.RenewTime = new(metav1.NowMicro())
		for _, o := range []client.Object{node, lease} {
			if err := c.Create(b.Context(), o); err != nil {
				b.Fatal(err)
			}
		}
		nodes, leases = append(nodes, node), append(leases, lease)
	}
	beat := func(i int) error {
		if by == "lease" {
			l := leases[i%n]
			l.Spec.RenewTime = new(metav1.NowMicro())
			return c.Update(b.Context(), l)
		}
		node := nodes[i%n]
		before := node.DeepCopy()
		node.Status.Conditions = []corev1.NodeCondition{ready(corev1.ConditionTrue)}
		node.Status.Conditions[0].LastHeartbeatTime = metav1.Unix(1e9+int64(i), 0)
		return c.Status().Patch(b.Context(), node, client.MergeFrom(before))
	}
	for i := range 2 * n { // controllers write what follows from the first ones
		if err := beat(i); err != nil {
			b.Fatal(err)
		}
	}
	for last := ""; ; time.Sleep(time.Second) { // until they have written all of it
		var list corev1.NodeList
		if err := c.List(b.Context(), &list, client.Limit(1)); err != nil {
			b.Fatal(err)
		}
		if list.ResourceVersion == last {
			break
		}
		last = list.ResourceVersion
	}
	used := processor()
	for i := 0; b.Loop(); i++ {
		if err := beat(i + 2*n); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((processor()-used).Microseconds())/float64(b.N), "us-cpu/op")
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
