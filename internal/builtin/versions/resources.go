package versions

import (
	"reflect"

	"github.com/kapok-dev/kapok/convert"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
)

// resources is the group resource.k8s.io. In v1beta1 a request for one device is not told apart from a choice, and what
// there is to say of a device lies one level deeper.
func resources() []convert.Rule {
	exactIn := convert.Names[resourcev1beta1.DeviceRequest, resourcev1.ExactDeviceRequest]()
	exactOut := convert.Names[resourcev1.ExactDeviceRequest, resourcev1beta1.DeviceRequest]()
	basicIn := convert.Names[resourcev1beta1.BasicDevice, resourcev1.Device]()
	basicOut := convert.Names[resourcev1.Device, resourcev1beta1.BasicDevice]()
	return []convert.Rule{
		same[resourcev1.DeviceClass, resourcev1.DeviceClass](),
		same[resourcev1.DeviceClass, resourcev1beta2.DeviceClass](),
		same[resourcev1.DeviceClass, resourcev1beta1.DeviceClass](),
		same[resourcev1.ResourceClaim, resourcev1.ResourceClaim](),
		same[resourcev1.ResourceClaim, resourcev1beta2.ResourceClaim](),
		same[resourcev1.ResourceClaim, resourcev1beta1.ResourceClaim](),
		same[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplate](),
		same[resourcev1.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplate](),
		same[resourcev1.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplate](),
		same[resourcev1.ResourceSlice, resourcev1.ResourceSlice](),
		same[resourcev1.ResourceSlice, resourcev1beta2.ResourceSlice](),
		same[resourcev1.ResourceSlice, resourcev1beta1.ResourceSlice](),
		same[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRule](),
		same[resourcev1.DeviceTaintRule, resourcev1beta2.DeviceTaintRule](),
		same[resourcev1.DeviceTaintRule, resourcev1alpha3.DeviceTaintRule](),

		both(
			func(in *resourcev1beta1.DeviceRequest, hub *resourcev1.DeviceRequest) error {
				if reflect.DeepEqual(*in, resourcev1beta1.DeviceRequest{Name: in.Name, FirstAvailable: in.FirstAvailable}) {
					return nil // a choice
				}
				hub.Exactly = &resourcev1.ExactDeviceRequest{}
				return exactIn(in, hub.Exactly)
			},
			func(hub *resourcev1.DeviceRequest, out *resourcev1beta1.DeviceRequest) error {
				if hub.Exactly == nil {
					return nil
				}
				return exactOut(hub.Exactly, out)
			},
		),
		both(
			func(in *resourcev1beta1.Device, hub *resourcev1.Device) error {
				if in.Basic == nil {
					return nil
				}
				return basicIn(in.Basic, hub)
			},
			func(hub *resourcev1.Device, out *resourcev1beta1.Device) error {
				out.Basic = &resourcev1beta1.BasicDevice{}
				return basicOut(hub, out.Basic)
			},
		),
		both(
			func(in *resourcev1beta1.ResourceSliceSpec, hub *resourcev1.ResourceSliceSpec) error {
				if in.NodeName != "" {
					hub.NodeName = clone(&in.NodeName)
				}
				if in.AllNodes {
					hub.AllNodes = clone(&in.AllNodes)
				}
				return nil
			},
			func(hub *resourcev1.ResourceSliceSpec, out *resourcev1beta1.ResourceSliceSpec) error {
				out.NodeName, out.AllNodes = value(hub.NodeName), value(hub.AllNodes)
				return nil
			},
		),
	}
}
