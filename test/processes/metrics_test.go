//go:build linux

package processes

import (
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// TestMetrics reads what a busy container and an idle one use.
func TestMetrics(t *testing.T) {
	m := newMachine(t)
	m.create(pod(t, "busy", "busy"))
	m.create(pod(t, "idle", "sleep"))
	await(t, m.clients, "busy", "ready", isReady)
	await(t, m.clients, "idle", "ready", isReady)
	scheme := runtime.NewScheme()
	if err := metricsv1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(m.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	m.eventually("the metrics", "", func() (string, error) {
		var busy, idle metricsv1beta1.PodMetrics
		var node metricsv1beta1.NodeMetrics
		for key, o := range map[client.ObjectKey]client.Object{client.Key("default", "busy"): &busy, client.Key("default", "idle"): &idle, client.Key("", "machine"): &node} {
			if err := c.Get(t.Context(), key, o); err != nil {
				return "", err
			}
		}
		b, i := busy.Containers[0].Usage, idle.Containers[0].Usage
		if b.Cpu().Cmp(*i.Cpu()) <= 0 || i.Memory().Value() < 1<<20 || node.Usage.Memory().Value() < b.Memory().Value()+i.Memory().Value() {
			return fmt.Sprintf("busy %v, idle %v, node %v", b, i, node.Usage), nil
		}
		return "", nil
	})
}
