package job

import (
	"time"

	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
)

// metrics have the names of kube-controller-manager.
type metrics struct {
	passes       *prometheus.CounterVec   // by completion_mode, result, action
	durations    *prometheus.HistogramVec // likewise
	finished     *prometheus.CounterVec   // Jobs, by completion_mode, result, reason
	finishedPods *prometheus.CounterVec   // by completion_mode, result
}

func newMetrics(r manager.Registry) (m metrics, err error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		if err != nil {
			return nil
		}
		var c *prometheus.CounterVec
		c, err = manager.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "job_controller_" + name, Help: help}, labels))
		return c
	}
	m.passes = counter("job_syncs_total", "Passes over Jobs.", "completion_mode", "result", "action")
	m.finished = counter("jobs_finished_total", "Jobs that have succeeded or failed.", "completion_mode", "result", "reason")
	m.finishedPods = counter("job_pods_finished_total", "Pods that have ended and are counted.", "completion_mode", "result")
	if err != nil {
		return m, err
	}
	m.durations, err = manager.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "job_controller_job_sync_duration_seconds", Help: "Time of a pass over a Job.", Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"}))
	return m, err
}

// The values of the label action.
const (
	reconciling = "reconciling" // the Job ends, or is being deleted
	tracking    = "tracking"    // the Job has the pods that it needs
	creating    = "pods_created"
	deleting    = "pods_deleted"
)

// mode is the value of the label completion_mode.
func mode(job *batchv1.Job) string {
	if indexed(job) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// passed counts a pass.
func (m metrics) passed(p *pass, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.passes.WithLabelValues(mode(p.job), result, p.action).Inc()
	m.durations.WithLabelValues(mode(p.job), result, p.action).Observe(time.Since(p.now).Seconds())
}

// counted counts the pods by which the counters of a status have grown.
func (m metrics) counted(job *batchv1.Job, before, now batchv1.JobStatus) {
	m.finishedPods.WithLabelValues(mode(job), "succeeded").Add(float64(max(0, now.Succeeded-before.Succeeded)))
	m.finishedPods.WithLabelValues(mode(job), "failed").Add(float64(max(0, now.Failed-before.Failed)))
}

// ended counts a Job that has ended with a condition.
func (m metrics) ended(job *batchv1.Job, with batchv1.JobCondition) {
	result := "failed"
	if with.Type == batchv1.JobComplete {
		result = "succeeded"
	}
	m.finished.WithLabelValues(mode(job), result, with.Reason).Inc()
}
