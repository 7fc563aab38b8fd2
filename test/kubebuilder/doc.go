// Package kubebuilder runs projects with kubebuilder's layout, each a module in testdata, as their
// users do: cronjob, which is the CronJob of kubebuilder's tutorial with controller, webhooks and
// two suites, and memcached, a small operator with a finalizer.
//
// The projects do not depend on Kapok: they need envtest with its binaries, and `go test ./...` in
// them fails without KUBEBUILDER_ASSETS, as everywhere. The tests here run them with Kapok instead
// of these binaries, and then change cronjob in the steps of docs/testing-kubebuilder.md: each file
// of steps is a step, applied to the result of the step before.
//
// Run it with -count=1: go test does not detect changes of Kapok, which is not a part of this
// module.
//
// With KUBEBUILDER_ASSETS set, the suites also run with these binaries, for comparison:
// test/oracle/assets builds the real ones.
package kubebuilder
