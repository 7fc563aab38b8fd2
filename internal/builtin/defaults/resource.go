package defaults

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func resourceTypes(f *functions) {
	on(f, func(r *resourcev1.ExactDeviceRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	on(f, func(r *resourcev1.DeviceSubRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	on(f, func(t *resourcev1.DeviceTaint) { set(&t.TimeAdded, now()) })
	on(f, func(t *resourcev1.DeviceToleration) { fill(&t.Operator, resourcev1.DeviceTolerationOpEqual) })

	on(f, func(r *resourcev1beta2.ExactDeviceRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	on(f, func(r *resourcev1beta2.DeviceSubRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	on(f, func(t *resourcev1beta2.DeviceTaint) { set(&t.TimeAdded, now()) })
	on(f, func(t *resourcev1beta2.DeviceToleration) { fill(&t.Operator, resourcev1beta2.DeviceTolerationOpEqual) })

	on(f, func(r *resourcev1beta1.DeviceRequest) {
		if r.DeviceClassName != "" { // else it is a choice among others
			defaultCount(&r.AllocationMode, &r.Count)
		}
	})
	on(f, func(r *resourcev1beta1.DeviceSubRequest) { defaultCount(&r.AllocationMode, &r.Count) })
	on(f, func(t *resourcev1beta1.DeviceTaint) { set(&t.TimeAdded, now()) })
	on(f, func(t *resourcev1beta1.DeviceToleration) { fill(&t.Operator, resourcev1beta1.DeviceTolerationOpEqual) })

	on(f, func(t *resourcev1alpha3.DeviceTaint) { set(&t.TimeAdded, now()) })
	on(f, func(s *resourcev1alpha3.ResourcePoolStatusRequestSpec) {
		set(&s.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault)
	})
}

// defaultCount asks for one device.
func defaultCount[M ~string](mode *M, count *int64) {
	exact := M(resourcev1.DeviceAllocationModeExactCount)
	fill(mode, exact)
	if *mode == exact {
		fill(count, 1)
	}
}

func now() metav1.Time { return metav1.Time{Time: time.Now().Truncate(time.Second)} }
