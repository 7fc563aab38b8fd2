package versions

import (
	"github.com/kapok-dev/kapok/convert"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
)

// core has one version, but events moved on to a group of their own, and some kinds say the same in two fields.
func core() []convert.Rule {
	return []convert.Rule{
		same[corev1.Event, corev1.Event](),
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
				spec.PodCIDRs = []string{spec.PodCIDR} // what old clients write counts
			case len(spec.PodCIDRs) > 0:
				spec.PodCIDR = spec.PodCIDRs[0]
			}
			return nil
		}),
	}
}
