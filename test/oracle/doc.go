// Package oracle runs the real kube-apiserver on a real etcd, both in this process, and records its
// responses.
//
// The responses are the expected outputs of the scripts in test/corpus/testdata; Kapok is compared
// with them there. This is a separate module, because it depends on all of Kubernetes, which
// Kapok's module must not.
//
// A Server belongs to the context that it was started with: cancelling it stops both parts, and
// Stop waits for them. Only one Server can run in a process: kube-apiserver has its feature gates,
// its metrics and some intervals in package variables.
package oracle
