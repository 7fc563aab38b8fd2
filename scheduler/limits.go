package scheduler

import (
	"time"

	"github.com/kapok-dev/kapok/client"

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
	s.queue.happened(time.Now(), ofDrivers)
}

func (s *scheduler) removeCSIDriver(o client.Object) {
	s.cluster.RemoveCSIDriver(o.GetName())
	s.queue.happened(time.Now(), ofDrivers)
}

func (s *scheduler) setAttachment(_, o client.Object) {
	s.cluster.SetAttachment(o.(*storagev1.VolumeAttachment))
}

func (s *scheduler) removeAttachment(o client.Object) {
	s.cluster.RemoveAttachment(o.(*storagev1.VolumeAttachment))
	s.queue.happened(time.Now(), ofDrivers)
}
