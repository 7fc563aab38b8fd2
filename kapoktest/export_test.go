package kapoktest

import "testing"

// SettleFor is Settle with another TB.
func SettleFor(e *Env, t testing.TB) {
	other := &Env{t: t, record: e.record}
	other.Settle()
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
