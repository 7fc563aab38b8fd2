package kapoktest

import (
	"context"
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

// Remember has an Env remember no more than so many requests.
func Remember(e *Env, most int) { e.record.most = most }

// TooOften has an Env take so many changes of an object at one moment for one too many.
func TooOften(e *Env, most int) { e.record.crowd.most = most }

// StartEnv is Start, and the end is the caller's to call.
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

// StartOne is StartEnv without anything in it.
func StartOne(b *testing.B) (stop func()) {
	b.Helper()
	return start(b, options{}).stop
}

// Exploration is Explore, and returns what it finds.
func Exploration(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env)) string {
	t.Helper()
	found, _ := ExplorationSkipped(t, n, faults, scenario)
	return found
}

// ExplorationSkipped is Explore, and returns what it finds, or why it is skipped.
func ExplorationSkipped(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env)) (said string, skipped bool) {
	t.Helper()
	result := explore(t, n, faults, scenario, nil)
	return result.said, result.skipped
}

// Began is the resourceVersion from which on the test's changes are.
func (e *Env) Began() string { return e.began }

// NoMoreFaults has no fault begin from now on. Those that have begun go on.
func NoMoreFaults(e *Env) { e.faults.limit([]Fault{}) }
