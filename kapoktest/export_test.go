package kapoktest

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok/client"
)

// SettleFor is Settle with another TB.
func SettleFor(e *Env, t testing.TB) {
	other := &Env{t: t, record: e.record}
	other.Settle()
}

// WaitForWith is WaitFor with another TB.
func WaitForWith(e *Env, t testing.TB, ctx context.Context, obj client.Object, condition func() bool) {
	before := e.t
	e.t = t
	defer func() { e.t = before }()
	e.WaitFor(ctx, obj, condition)
}

// StartAndStop starts an Env and stops it.
func StartAndStop(b *testing.B) {
	e := start(b, options{scheme: nil})
	e.stop()
}

// Exploration is Explore, and returns what it finds.
func Exploration(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env)) string {
	t.Helper()
	return explore(t, n, faults, scenario, nil)
}

// Began is the resourceVersion from which on the test's changes are.
func (e *Env) Began() string { return e.began }
