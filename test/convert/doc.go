// Package convert holds Kapok's conversion of built-in kinds against Kubernetes' own: the types, defaults and conversion
// functions that kubectl-convert is made of. It is a module of its own, because these live in k8s.io/kubernetes.
//
//	go test ./...
//
// TestRandom converts random objects of every version to every other; KAPOK_CONVERT_SEED repeats a run, and
// KAPOK_CONVERT_ROUNDS makes it longer. TestFiles converts the files in testdata with kubectl-convert and kapok convert
// and compares what they print.
package convert
