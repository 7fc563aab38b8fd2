package simulated

import "github.com/kapok-dev/kapok/node/internal/metrics"

// MetricsVersion is the group version that Metrics serves.
var MetricsVersion = metrics.Version

// Metrics serves metrics.k8s.io/v1beta1 for simulated nodes and their pods, as metrics-server does
// for kubelets: kubectl top and HorizontalPodAutoscalers read it. It is a handler for
// kapok.Options.Aggregation.Handlers, and its zero value answers once it is in the Options of a
// simulation that runs. It starts no goroutine. Nodes of package process may share it.
//
// A container that runs has metrics from its start on. A node uses what its pods use.
type Metrics = metrics.Handler
