//go:build linux

package controllers_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// BenchmarkAtRest creates Deployments with 100 pods each, on a server with a data directory, and
// reports the memory of server and controllers, and the processor time of one change, when all is
// at rest. The number of Deployments is in the name: 10 for comparison, 1,000 with -timeout 30m.
func BenchmarkAtRest(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { atRest(b, n) })
	}
}

func atRest(b *testing.B, n int) {
	server, err := kapok.Start(b.Context(), kapok.Options{DataDir: b.TempDir(), Controllers: controllers.Options{}})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	c, err := client.NewWithWatch(server.Config(), client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	stop := runPods(b, c)
	var all []*appsv1.Deployment
	for i := range n {
		d := deployment(fmt.Sprint("web-", i), 100)
		if err := c.Create(b.Context(), d); err != nil {
			b.Fatal(err)
		}
		if all = append(all, d); i%10 == 9 || i == n-1 {
			waitFor(b, c, d, func() bool { return d.Status.AvailableReplicas == 100 })
		}
	}
	for _, d := range all {
		waitFor(b, c, d, func() bool { return d.Status.AvailableReplicas == 100 })
	}
	stop()
	time.Sleep(5 * time.Second)
	debug.FreeOSMemory()
	b.ReportMetric(anonymous(b), "MB")
	var pods corev1.PodList
	if err := c.List(b.Context(), &pods, client.MatchingLabels{"app": "web-0"}, client.Limit(1)); err != nil || len(pods.Items) == 0 {
		b.Fatal(err)
	}
	pod := &pods.Items[0]
	used := processor()
	const changes = 50
	for i := range changes {
		ready := corev1.ConditionFalse
		if i%2 == 1 {
			ready = corev1.ConditionTrue
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if err := c.Status().Update(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
		waitFor(b, c, all[0], func() bool { return (all[0].Status.ReadyReplicas == 100) == (ready == corev1.ConditionTrue) })
	}
	b.ReportMetric(float64((processor()-used).Microseconds())/changes, "us-cpu/change")
	b.ReportMetric(0, "ns/op")
}

var anon = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// anonymous returns the anonymous memory of this process in megabytes.
func anonymous(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	kb, err := strconv.Atoi(string(anon.FindSubmatch(text)[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1000
}
