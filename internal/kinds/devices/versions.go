package devices

import (
	"reflect"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
)

// Conversions are the conversions of this group's types. v1beta1 has no separate type for requests
// with alternatives, and keeps the properties of a device one level deeper.
func Conversions() []convert.Rule {
	exactIn := convert.Names[resourcev1beta1.DeviceRequest, resourcev1.ExactDeviceRequest]()
	exactOut := convert.Names[resourcev1.ExactDeviceRequest, resourcev1beta1.DeviceRequest]()
	basicIn := convert.Names[resourcev1beta1.BasicDevice, resourcev1.Device]()
	basicOut := convert.Names[resourcev1.Device, resourcev1beta1.BasicDevice]()
	return []convert.Rule{
		kind.Same[resourcev1.DeviceClass, resourcev1.DeviceClass](),
		kind.Same[resourcev1.DeviceClass, resourcev1beta2.DeviceClass](),
		kind.Same[resourcev1.DeviceClass, resourcev1beta1.DeviceClass](),
		kind.Same[resourcev1.ResourceClaim, resourcev1.ResourceClaim](),
		kind.Same[resourcev1.ResourceClaim, resourcev1beta2.ResourceClaim](),
		kind.Same[resourcev1.ResourceClaim, resourcev1beta1.ResourceClaim](),
		kind.Same[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplate](),
		kind.Same[resourcev1.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplate](),
		kind.Same[resourcev1.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplate](),
		kind.Same[resourcev1.ResourceSlice, resourcev1.ResourceSlice](),
		kind.Same[resourcev1.ResourceSlice, resourcev1beta2.ResourceSlice](),
		kind.Same[resourcev1.ResourceSlice, resourcev1beta1.ResourceSlice](),
		kind.Same[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRule](),
		kind.Same[resourcev1.DeviceTaintRule, resourcev1beta2.DeviceTaintRule](),
		kind.Same[resourcev1.DeviceTaintRule, resourcev1alpha3.DeviceTaintRule](),

		kind.Both(
			func(in *resourcev1beta1.DeviceRequest, hub *resourcev1.DeviceRequest) error {
				if reflect.DeepEqual(*in, resourcev1beta1.DeviceRequest{Name: in.Name, FirstAvailable: in.FirstAvailable}) {
					return nil // a request with alternatives
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
		kind.Both(
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
		kind.Both(
			func(in *resourcev1beta1.ResourceSliceSpec, hub *resourcev1.ResourceSliceSpec) error {
				if in.NodeName != "" {
					hub.NodeName = kind.Clone(&in.NodeName)
				}
				if in.AllNodes {
					hub.AllNodes = kind.Clone(&in.AllNodes)
				}
				return nil
			},
			func(hub *resourcev1.ResourceSliceSpec, out *resourcev1beta1.ResourceSliceSpec) error {
				out.NodeName, out.AllNodes = kind.Value(hub.NodeName), kind.Value(hub.AllNodes)
				return nil
			},
		),
	}
}
