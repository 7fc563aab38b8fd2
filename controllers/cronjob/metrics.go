package cronjob

import (
	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
)

// newSkew returns the metric of the time from a slot to the creation of its Job.
func newSkew(r manager.Registry) (prometheus.Histogram, error) {
	return manager.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "cronjob_controller_job_creation_skew_duration_seconds",
		Help:    "Time from a slot of a CronJob to the creation of its Job.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	}))
}
