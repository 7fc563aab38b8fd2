// Package convert compares Kapok's conversion of built-in kinds with Kubernetes' own: the types,
// defaults and conversion functions of kubectl-convert. It is a separate module, because these are
// in k8s.io/kubernetes.
//
//	go test ./...
//
// TestRandom converts random objects of every version to every other; KAPOK_SEED selects others,
// and KAPOK_CONVERT_ROUNDS makes it longer. TestFiles converts the files in testdata with
// kubectl-convert and kapok convert and compares the output.
package convert
