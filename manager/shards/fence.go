package shards

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
)

// header is the header of requests with which a Kapok server commits a write only while a Lease
// exists.
const header = "Kapok-Lease"

// errNotRenewed is the error of a write that is not sent, because others may have replaced the
// member.
var errNotRenewed = errors.New("shards: the Lease could not be renewed in time: writes are not sent")

// A fence keeps writes of a member from the server when others may have replaced it.
type fence struct {
	lease string
	until atomic.Pointer[time.Time]
}

func newFence(l *coordinationv1.Lease) *fence {
	return &fence{lease: l.Namespace + "/" + l.Name + "/" + string(l.UID)}
}

// allow allows writes until a time.
func (f *fence) allow(until time.Time) { f.until.Store(&until) }

// config returns a configuration whose requests pass the fence.
func (f *fence) config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fenced{f, next} })
	return cfg
}

type fenced struct {
	*fence
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (f *fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return f.next.RoundTrip(r)
	}
	if time.Now().After(*f.until.Load()) {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must, also on errors
		}
		return nil, errNotRenewed
	}
	r = r.Clone(r.Context())
	r.Header.Set(header, f.lease)
	return f.next.RoundTrip(r)
}

// WrappedRoundTripper returns the inner transport.
func (f *fenced) WrappedRoundTripper() http.RoundTripper { return f.next }
