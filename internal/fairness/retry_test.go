package fairness

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apiserver/pkg/util/flowcontrol"
)

// TestBackoffAsKubernetes rejects requests at random times, and checks that Retry-After is that of
// Kubernetes.
func TestBackoffAsKubernetes(t *testing.T) {
	first := seeds.Of(t)
	for n := range uint64(50) {
		seed := first + n
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			judge := flowcontrol.NewDroppedRequestsTracker()
			var b backoff
			for i := range 600 {
				if r.IntN(20) == 0 {
					time.Sleep(time.Duration(r.IntN(40)) * time.Second)
				}
				time.Sleep(time.Duration(r.IntN(1+1000>>(i/100))) * time.Millisecond)
				judge.RecordDroppedRequest("x")
				want, got := judge.GetRetryAfter("x"), b.refuse(time.Now())
				if got != want {
					t.Fatalf("seed %d: rejection %d: Retry-After is %d s, in Kubernetes %d", seed, i, got, want)
				}
			}
		})
	}
}
