// Package histogram has the options of the server's histograms. It starts no goroutine and has no
// locks.
package histogram

import "github.com/prometheus/client_golang/prometheus"

// Options returns the options of a histogram in two forms, as Kubernetes 1.37 exposes them
// (KEP-5808): with the given buckets, and in the protobuf format also as a native histogram, which
// has up to 160 buckets that grow by at most a tenth.
func Options(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 160,
	}
}
