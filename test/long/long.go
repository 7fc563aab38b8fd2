// Package long marks tests whose result depends on the machine: on its speed, its load, its memory,
// or the rights of the user. go test skips them, so that it never fails by chance; .ci/run --long
// runs them.
//
//	KAPOK_LONG=1 go test ./internal/journal/pebble
//
// Most such tests are better written otherwise: in virtual time, with the order of events or the
// number of requests instead of durations, or as a benchmark. git grep long.Only lists those that
// are left.
package long

import (
	"os"
	"testing"
)

// Variable is the environment variable that must be set for these tests to run.
const Variable = "KAPOK_LONG"

// Only skips t unless the variable is set. why names the conditions that the result depends on.
func Only(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		t.Skipf("%s: set %s=1 to run it", why, Variable)
	}
}
