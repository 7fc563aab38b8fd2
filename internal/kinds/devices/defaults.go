package devices

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(r *resourcev1.ExactDeviceRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	defaults.On(f, func(r *resourcev1.DeviceSubRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	defaults.On(f, func(t *resourcev1.DeviceTaint) { defaults.Pointer(&t.TimeAdded, now()) })
	defaults.On(f, func(t *resourcev1.DeviceToleration) { defaults.Value(&t.Operator, resourcev1.DeviceTolerationOpEqual) })

	defaults.On(f, func(r *resourcev1beta2.ExactDeviceRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	defaults.On(f, func(r *resourcev1beta2.DeviceSubRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	defaults.On(f, func(t *resourcev1beta2.DeviceTaint) { defaults.Pointer(&t.TimeAdded, now()) })
	defaults.On(f, func(t *resourcev1beta2.DeviceToleration) {
		defaults.Value(&t.Operator, resourcev1beta2.DeviceTolerationOpEqual)
	})

	defaults.On(f, func(r *resourcev1beta1.DeviceRequest) {
		if r.DeviceClassName != "" { // otherwise the request has alternatives
			defaultCount(&r.AllocationMode, &r.Count)
		}
	})
	defaults.On(f, func(r *resourcev1beta1.DeviceSubRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	defaults.On(f, func(t *resourcev1beta1.DeviceTaint) { defaults.Pointer(&t.TimeAdded, now()) })
	defaults.On(f, func(t *resourcev1beta1.DeviceToleration) {
		defaults.Value(&t.Operator, resourcev1beta1.DeviceTolerationOpEqual)
	})

	defaults.On(f, func(t *resourcev1alpha3.DeviceTaint) { defaults.Pointer(&t.TimeAdded, now()) })
	defaults.On(f, func(s *resourcev1alpha3.ResourcePoolStatusRequestSpec) {
		defaults.Pointer(&s.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault)
	})
}

// defaultCount sets the number of devices to 1.
func defaultCount[M ~string](mode *M, count *int64) {
	exact := M(resourcev1.DeviceAllocationModeExactCount)
	defaults.Value(mode, exact)
	if *mode == exact {
		defaults.Value(count, 1)
	}
}

func now() metav1.Time { return metav1.Time{Time: time.Now().Truncate(time.Second)} }
