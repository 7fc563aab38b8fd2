package encryption

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/metrics"
)

// Metrics returns the metrics of KMS providers, which are kube-apiserver's. They are those of the
// process: servers in one process whose providers have the same name share them.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{
		metrics.DekSourceCacheSize, metrics.InvalidKeyIDFromStatusTotal, metrics.KMSOperationsLatencyMetric,
		metrics.KeyIDHashLastTimestampSeconds, metrics.KeyIDHashStatusLastTimestampSeconds, metrics.KeyIDHashTotal,
	}
}
