package job

import (
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Failed pods are replaced after minBackoff, which doubles with each further failure up to
// maxBackoff.
const (
	minBackoff = 10 * time.Second
	maxBackoff = 10 * time.Minute
)

// backoff is the state from which the delay of the next pods of a Job or an index is computed.
type backoff struct {
	failures int32 // since the last success
	last     time.Time
}

// left returns how long no pod is created; 0 if one can be.
func (b backoff) left(now time.Time) time.Duration {
	if b.failures == 0 {
		return 0
	}
	wait := minBackoff
	for i := int32(1); i < b.failures && wait < maxBackoff; i++ {
		wait *= 2
	}
	return max(0, b.last.Add(min(wait, maxBackoff)).Sub(now))
}

// after returns the backoff after further pods have ended. Failures before a success do not count.
func (b backoff) after(succeeded, failed []*corev1.Pod) backoff {
	var success time.Time
	for _, p := range succeeded {
		if end := endOf(p); end.After(success) {
			success = end
		}
	}
	if len(succeeded) > 0 {
		b = backoff{}
	}
	for _, p := range failed {
		end := endOf(p)
		if len(succeeded) > 0 && !end.After(success) {
			continue
		}
		b.failures++
		if end.After(b.last) {
			b.last = end
		}
	}
	return b
}

// endOf returns when a pod ended, as far as that is known: when its last container did, or when it
// ceased to be ready, or was deleted, or else was created.
func endOf(p *corev1.Pod) time.Time {
	if end := endOfContainers(p); !end.IsZero() {
		return end
	}
	if c := pod.Condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if p.DeletionTimestamp != nil {
		grace := time.Duration(0)
		if p.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		}
		return p.DeletionTimestamp.Add(-grace)
	}
	return p.CreationTimestamp.Time
}

// endOfContainers returns when the last container ended, sidecars included; zero if one has not, or
// that is unknown.
func endOfContainers(p *corev1.Pod) (end time.Time) {
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		sidecars[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	statuses := p.Status.ContainerStatuses
	for _, s := range p.Status.InitContainerStatuses {
		if sidecars[s.Name] {
			statuses = append(statuses[:len(statuses):len(statuses)], s)
		}
	}
	for _, s := range statuses {
		if s.State.Terminated == nil || s.State.Terminated.FinishedAt.IsZero() {
			return time.Time{}
		}
		if s.State.Terminated.FinishedAt.After(end) {
			end = s.State.Terminated.FinishedAt.Time
		}
	}
	return end
}

// backoffs are those of all Jobs. They are lost with the process; its successor starts without
// delay.
type backoffs struct {
	mu    sync.Mutex
	byJob map[types.NamespacedName]ofJob
}

type ofJob struct {
	uid types.UID
	backoff
}

func (b *backoffs) of(job *batchv1.Job) backoff {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.byJob[client.ObjectKeyFromObject(job)]; known.uid == job.UID {
		return known.backoff
	}
	return backoff{}
}

func (b *backoffs) set(job *batchv1.Job, to backoff) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byJob == nil {
		b.byJob = map[types.NamespacedName]ofJob{}
	}
	b.byJob[client.ObjectKeyFromObject(job)] = ofJob{job.UID, to}
}

func (b *backoffs) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byJob, key)
}
