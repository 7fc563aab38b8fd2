// Package seeds chooses the seeds of randomized tests.
//
// A test that passes today must pass tomorrow if nothing has changed: by default a test gets the
// same seed in each run, derived from its name. The environment variable KAPOK_SEED changes that
// for all tests of a run:
//
//	KAPOK_SEED=random   a new seed for each call; .ci/run --long explores with it
//	KAPOK_SEED=12345    this seed, to repeat a failure
//
// A failed test logs its seed in that form. A seed that has found a bug is added to the fixed ones
// of its test together with the fix.
package seeds

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that selects the seed.
const Variable = "KAPOK_SEED"

// Of returns the seed of t, and logs it. Calls for the same test return the same seed, except with
// KAPOK_SEED=random: a test that needs several adds to it.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(0)
	switch value := os.Getenv(Variable); value {
	case "":
		seed = hash(t.Name())
	case "random":
		seed = uint64(rand.Uint32()) + 1<<32 // short enough to be typed, and never one of the small seeds that tests name
	default:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q: must be empty, a number or \"random\"", Variable, value)
		}
		seed = n
	}
	t.Logf("%s=%d", Variable, seed)
	return seed
}

func hash(name string) uint64 {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails
	return uint64(h.Sum32())
}
