package cluster

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
)

// Conversions are the conversions of this group's types: events to their own group, and kinds with
// two fields for one value.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[corev1.Event, corev1.Event](),
		convert.Spoke(
			func(in *eventsv1.Event, hub *corev1.Event) error {
				hub.InvolvedObject, hub.Source, hub.Message = in.Regarding, in.DeprecatedSource, in.Note
				hub.FirstTimestamp, hub.LastTimestamp, hub.Count = in.DeprecatedFirstTimestamp, in.DeprecatedLastTimestamp, in.DeprecatedCount
				return nil
			},
			func(hub *corev1.Event, out *eventsv1.Event) error {
				out.Regarding, out.DeprecatedSource, out.Note = hub.InvolvedObject, hub.Source, hub.Message
				out.DeprecatedFirstTimestamp, out.DeprecatedLastTimestamp, out.DeprecatedCount = hub.FirstTimestamp, hub.LastTimestamp, hub.Count
				return nil
			},
		),
		convert.Spoke(
			func(in *eventsv1beta1.Event, hub *corev1.Event) error {
				hub.InvolvedObject, hub.Source, hub.Message = in.Regarding, in.DeprecatedSource, in.Note
				hub.FirstTimestamp, hub.LastTimestamp, hub.Count = in.DeprecatedFirstTimestamp, in.DeprecatedLastTimestamp, in.DeprecatedCount
				return nil
			},
			func(hub *corev1.Event, out *eventsv1beta1.Event) error {
				out.Regarding, out.DeprecatedSource, out.Note = hub.InvolvedObject, hub.Source, hub.Message
				out.DeprecatedFirstTimestamp, out.DeprecatedLastTimestamp, out.DeprecatedCount = hub.FirstTimestamp, hub.LastTimestamp, hub.Count
				return nil
			},
		),

		convert.Spoke(nil, func(_, out *corev1.Secret) error {
			for key, value := range out.StringData {
				if out.Data == nil {
					out.Data = map[string][]byte{}
				}
				out.Data[key] = []byte(value)
			}
			out.StringData = nil
			return nil
		}),
		convert.Spoke(nil, func(_, out *corev1.Node) error {
			spec := &out.Spec
			switch {
			case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
				spec.PodCIDRs = []string{spec.PodCIDR} // the field of old clients takes precedence
			case len(spec.PodCIDRs) > 0:
				spec.PodCIDR = spec.PodCIDRs[0]
			}
			return nil
		}),

		kind.Same[coordinationv1.Lease, coordinationv1.Lease](),
		kind.Same[coordinationv1.Lease, coordinationv1beta1.Lease](),
		kind.Same[coordinationv1beta1.LeaseCandidate, coordinationv1beta1.LeaseCandidate](),
		kind.Same[coordinationv1beta1.LeaseCandidate, coordinationv1alpha2.LeaseCandidate](),
		kind.Same[storagemigrationv1.StorageVersionMigration, storagemigrationv1.StorageVersionMigration](),
		kind.Same[storagemigrationv1.StorageVersionMigration, storagemigrationv1beta1.StorageVersionMigration](),
	}
}
