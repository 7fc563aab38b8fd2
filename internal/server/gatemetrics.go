package server

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/gates"

	"github.com/prometheus/client_golang/prometheus"
)

// gateMetrics are the feature gates and the release of a server as metrics, by the names of
// kube-apiserver.
type gateMetrics struct{ settings gates.Settings }

var (
	gateEnabled = prometheus.NewDesc("kubernetes_feature_enabled", "This metric records the data about the stage and enablement of a k8s feature.", []string{"name", "stage"}, nil)
	versionInfo = prometheus.NewDesc("version_info", "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.",
		[]string{"component", "binary", "emulation", "min_compat"}, nil)
)

// Describe implements prometheus.Collector.
func (m gateMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- gateEnabled
	to <- versionInfo
}

// Collect implements prometheus.Collector.
func (m gateMetrics) Collect(to chan<- prometheus.Metric) {
	for _, g := range gates.All(m.settings.Release) {
		enabled := 0.0
		if m.settings.Enabled(g.Name) {
			enabled = 1
		}
		to <- prometheus.MustNewConstMetric(gateEnabled, prometheus.GaugeValue, enabled, g.Name, g.Stage)
	}
	binary, _, _ := strings.Cut(strings.TrimPrefix(KubernetesVersion, "v"), "+")
	to <- prometheus.MustNewConstMetric(versionInfo, prometheus.GaugeValue, 1, "kube", binary, m.settings.Release.String(), minCompatible(m.settings.Release).String())
}

// minCompatible returns the oldest release that other servers of the cluster may have: in
// kube-apiserver, by default that before the release that it behaves as, if that can be emulated.
func minCompatible(r emulation.Release) emulation.Release { return max(r-1, emulation.Oldest) }
