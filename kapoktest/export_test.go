package kapoktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// SettleWith is SettleFor with another TB.
func SettleWith(e *Env, t testing.TB, quiet time.Duration) {
	other := &Env{t: t, ctx: e.ctx, sound: e.sound, record: e.record, faults: e.faults, backend: e.backend, stilling: e.stilling}
	other.SettleFor(quiet)
}

// WaitForWith is WaitFor with another TB.
func WaitForWith(e *Env, t testing.TB, ctx context.Context, obj client.Object, condition func() bool) {
	before := e.t
	e.t = t
	defer func() { e.t = before }()
	e.WaitFor(ctx, obj, condition)
}

// UpdateWith is Update with another TB.
func UpdateWith(e *Env, t testing.TB, obj client.Object, change func()) {
	other := &Env{t: t, ctx: e.ctx, sound: e.sound, scheme: e.scheme, client: e.client}
	other.Update(obj, change)
}

// GoldenWith is Golden with another TB.
func GoldenWith(e *Env, t testing.TB, file string, kinds ...client.Object) {
	other := &Env{t: t, ctx: e.ctx, scheme: e.scheme, client: e.client}
	other.Golden(file, kinds...)
}

// Remember sets the number of requests that an Env remembers.
func Remember(e *Env, most int) { e.record.most = most }

// TooOften sets the number of changes of an object at one moment that an Env accepts.
func TooOften(e *Env, most int) { e.record.crowd.most = most }

// StartEnv is Start for a caller who closes the Env.
func StartEnv(b *testing.B, opts ...Option) (e *Env, stop func()) {
	b.Helper()
	o := options{scheme: clientscheme.Scheme}
	for _, opt := range opts {
		opt(&o)
	}
	e = start(b, o)
	e.install(o)
	return e, e.stop
}

// StartOne is StartEnv for an Env with a single server.
func StartOne(b *testing.B) (stop func()) {
	b.Helper()
	return start(b, options{}).stop
}

// Exploration is Explore, but returns the finding.
func Exploration(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env), opts ...Option) string {
	t.Helper()
	found, _ := ExplorationSkipped(t, n, faults, scenario, opts...)
	return found
}

// ExplorationSkipped is Explore, but returns the finding, or the reason why it is skipped.
func ExplorationSkipped(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env), opts ...Option) (said string, skipped bool) {
	t.Helper()
	result := explore(t, n, faults, scenario, opts)
	return result.said, result.skipped
}

// Began returns the resourceVersion at which the test began.
func (e *Env) Began() string { return e.began }

// NoMoreFaults prevents further faults. Present ones continue.
func NoMoreFaults(e *Env) { e.faults.limit([]Fault{}) }

// Blocked runs a bubble, and returns why it is blocked, or "". The channel is closed when the
// bubble has ended nevertheless.
func Blocked(t *testing.T, run func(t *testing.T, env *Env), opts ...Option) (why string, ended <-chan struct{}) {
	t.Helper()
	return guard(t, func(t *testing.T, w *watchdog) {
		run(t, Start(t, append(slices.Clip(opts), w.option)...))
	})
}

// BlockedIn returns what blocks the bubble in a dump, which a goroutine outside of it has made.
func BlockedIn(dump, mark string) string {
	b := blockedIn(dump, mark)
	if len(b.states) == 0 {
		return ""
	}
	return b.report(defaultBlocked)
}
