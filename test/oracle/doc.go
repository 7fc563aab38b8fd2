// Package oracle runs the real kube-apiserver on a real etcd, both inside this process, and asks it what Kubernetes
// answers.
//
// The answers are the expected outputs of the scripts in test/corpus/testdata; Kapok is compared with them there. This
// module is apart from Kapok's own, because it drags in all of Kubernetes and nobody who uses Kapok should pay for that.
//
// A Server belongs to the context it was started with: cancelling it stops both halves, and Stop waits for them. Only
// one Server can run in a process: kube-apiserver keeps its feature gates, its metrics and some intervals in package
// variables.
package oracle
