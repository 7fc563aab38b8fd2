// Package e2e is the test program of Kubernetes, with the packages that have conformance tests.
//
// Its files have the build tag conformance, because to compile it takes minutes and much memory:
//
//	go test -tags conformance -c -o e2e.test ./e2e
//
// The flags are those of Kubernetes' e2e.test and of Ginkgo, and -results.
package e2e
