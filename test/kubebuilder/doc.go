// Package kubebuilder runs projects of kubebuilder's shape, each a module of its own in testdata, as their users do: cronjob, which is
// the CronJob of kubebuilder's tutorial with controller, webhooks and two suites, and memcached, a small operator with a finalizer.
//
// As they are in testdata they know nothing of Kapok: they want envtest with its binaries, and `go test ./...` in them fails without
// KUBEBUILDER_ASSETS as it does everywhere. The tests here run them with Kapok in the place of these binaries, and then take cronjob
// along the way that docs/testing.md shows: each file of steps is a step, applied to what the step before has left.
//
// Run it with -count=1: go test does not see when Kapok changes, which is no part of this module.
//
// With KUBEBUILDER_ASSETS set, the suites also run with what is there, to compare: test/oracle/assets makes the real binaries.
package kubebuilder
