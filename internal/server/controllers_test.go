package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// failing are controllers that fail at once for some runs, and then write until they are stopped.
type failing struct {
	failures int
	runs     []time.Time
	err      error // of the last write, after ctx has ended
}

func (f *failing) Validate() error {
	if f.failures < 0 {
		return errors.New("failures is negative")
	}
	return nil
}

func (f *failing) Run(ctx context.Context, cfg *rest.Config, _ *slog.Logger, _ *prometheus.Registry, elect bool) error {
	if elect {
		return errors.New("a single server needs no election")
	}
	if f.runs = append(f.runs, time.Now()); len(f.runs) <= f.failures {
		return errors.New("fails")
	}
	<-ctx.Done()
	namespaces := kubernetes.NewForConfigOrDie(cfg).CoreV1().Namespaces()
	_, f.err = namespaces.Get(context.WithoutCancel(ctx), "default", metav1.GetOptions{})
	return f.err
}

// TestControllers checks that controllers are run again when they fail, and that the server
// outlives them.
func TestControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &failing{failures: 3}
		s, err := Start(t.Context(), Options{Controllers: c})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if len(c.runs) != 4 || c.err != nil {
			t.Errorf("%d runs, error %v; want 4 runs and a server that serves until the last one has ended", len(c.runs), c.err)
		}
		if since := c.runs[3].Sub(c.runs[0]); since != 3*controllersRetry {
			t.Errorf("the fourth run began %v after the first, want %v", since, 3*controllersRetry)
		}
	})
}

func TestInvalidControllers(t *testing.T) {
	if s, err := Start(t.Context(), Options{Controllers: &failing{failures: -1}}); err == nil {
		s.Stop()
		t.Error("the server started with invalid controllers")
	}
}
