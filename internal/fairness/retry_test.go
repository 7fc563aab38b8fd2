package fairness

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol"
)

// TestBackoffAsKubernetes refuses requests at random, and wants them to be told to come back when Kubernetes tells them.
func TestBackoffAsKubernetes(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
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
					t.Fatalf("seed %d: refusal %d: %d s, Kubernetes has %d", seed, i, got, want)
				}
			}
		})
	}
}
