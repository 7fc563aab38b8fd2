// Package envtest tests Kapok as a replacement of the binaries that controller-runtime's envtest
// runs, with that package itself, and with controller-runtime's own suites.
package envtest
