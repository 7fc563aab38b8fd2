package scheduler

import (
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler/place"

	storagev1 "k8s.io/api/storage/v1"
)

// ofDrivers is the plugin whose refusal a change of drivers, limits and attachments may end.
const ofDrivers = "NodeVolumeLimits"

func (s *scheduler) setCSINode(_, o client.Object) {
	s.cluster.SetCSINode(o.(*storagev1.CSINode))
	s.queue.happened(time.Now(), ofDrivers)
}

func (s *scheduler) removeCSINode(o client.Object) {
	s.cluster.RemoveCSINode(o.GetName())
	s.queue.happened(time.Now(), ofDrivers)
}

func (s *scheduler) setCSIDriver(_, o client.Object) {
	s.cluster.SetCSIDriver(o.(*storagev1.CSIDriver))
	s.queue.happened(time.Now(), ofDrivers, "VolumeBinding")
}

func (s *scheduler) removeCSIDriver(o client.Object) {
	s.cluster.RemoveCSIDriver(o.GetName())
	s.queue.happened(time.Now(), ofDrivers)
}

// setCapacity retries pods only if there may be space for larger volumes: drivers write capacities
// often.
func (s *scheduler) setCapacity(old, o client.Object) {
	c := o.(*storagev1.CSIStorageCapacity)
	s.cluster.SetStorageCapacity(c)
	if old != nil {
		if before, now := place.LargestVolume(old.(*storagev1.CSIStorageCapacity)), place.LargestVolume(c); now == nil || before != nil && now.Cmp(*before) <= 0 {
			return
		}
	}
	s.queue.happened(time.Now(), "VolumeBinding")
}

func (s *scheduler) removeCapacity(o client.Object) {
	s.cluster.RemoveStorageCapacity(o.GetNamespace(), o.GetName())
}

func (s *scheduler) setAttachment(_, o client.Object) {
	s.cluster.SetAttachment(o.(*storagev1.VolumeAttachment))
}

func (s *scheduler) removeAttachment(o client.Object) {
	s.cluster.RemoveAttachment(o.(*storagev1.VolumeAttachment))
	s.queue.happened(time.Now(), ofDrivers)
}
