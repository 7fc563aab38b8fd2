// Package cost searches for requests whose cost is out of proportion to their size.
//
// A small request must not be able to occupy the server for long or to fill its memory. For every
// built-in kind, the tests take a valid object, pick one field of its Go type, and let it grow:
// lists and maps by more elements, strings by more letters, in several shapes (empty elements,
// elements with every field set, the same element repeated, values of the wrong type). The objects
// are sent to a server in this process in bodies that double in size: by create, or by an update,
// a patch of each type or an apply of an object in the store. The test measures the allocated bytes
// and the processor time. Both must be linear in the body: the cost of one more byte must not grow
// with the body, and must stay below a bound.
//
// By default the test selects some of the fields and verbs at random, the same ones in each run,
// and checks allocations only. -cost creates with every field, sends it by a random other verb, and
// checks time as well, in units of the machine's speed (package yardstick):
//
//	go test ./test/cost
//	go test ./test/cost -cost -run 'TestKinds/pods' -v
//	KAPOK_SEED=random go test ./test/cost
package cost
