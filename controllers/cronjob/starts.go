package cronjob

import (
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// starts are the slots that were started last, of the CronJobs whose status in the cache does not
// say so yet. It is safe for concurrent use. The zero value is ready to use.
type starts struct {
	mu     sync.Mutex
	latest map[client.ObjectKey]started
}

// started is a slot with its Job, of the CronJob with this uid.
type started struct {
	uid  types.UID
	slot time.Time
	job  corev1.ObjectReference
}

func (s *starts) note(c *batchv1.CronJob, latest started) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest = map[client.ObjectKey]started{}
	}
	s.latest[client.ObjectKeyFromObject(c)] = latest
}

func (s *starts) forget(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.latest, key)
}

// apply records the slot of a CronJob that was started last, or forgets it if the status has it. It
// reports whether it has recorded one.
func (s *starts) apply(c *batchv1.CronJob) bool {
	key := client.ObjectKeyFromObject(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.latest[key]
	switch at := c.Status.LastScheduleTime; {
	case !ok:
		return false
	case last.uid != c.UID, at != nil && !at.Time.Before(last.slot):
		delete(s.latest, key)
		return false
	}
	addSlot(c, last.slot, last.job)
	return true
}

// addSlot adds a slot with its Job to a status.
func addSlot(c *batchv1.CronJob, slot time.Time, job corev1.ObjectReference) {
	if at := c.Status.LastScheduleTime; at == nil || at.Time.Before(slot) {
		c.Status.LastScheduleTime = &metav1.Time{Time: slot}
	}
	if !slices.ContainsFunc(c.Status.Active, hasUID(job.UID)) {
		c.Status.Active = append(c.Status.Active, job)
	}
}

func reference(j *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job",
		Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
	}
}
