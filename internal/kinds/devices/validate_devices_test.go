package devices

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestProblemsOfNames(t *testing.T) {
	at := field.NewPath("x")
	for _, c := range []struct {
		check func(string, *field.Path) field.ErrorList
		name  string
		want  string // part of the error, "" if there is none
	}{
		{validateDevicePool, "node.example.com/pool", ""},
		{validateDevicePool, "a//b", "RFC 1123 subdomain"},
		{validateAttributeName, "a_b", ""},
		{validateAttributeName, "x.y/a_b", ""},
		{validateAttributeName, "x.y/", "the name must not be empty"},
		{validateAttributeName, strings.Repeat("a", 33), "may not be more than 32"},
		{validateDeviceDriver, "GPU.example.com", ""},
	} {
		errs := c.check(c.name, at)
		if (c.want == "") != (len(errs) == 0) || len(errs) > 0 && !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.name, errs, c.want)
		}
	}
}

// TestSliceTakesFewerDevicesWithTaints checks the limit of devices in a slice.
func TestSliceTakesFewerDevicesWithTaints(t *testing.T) {
	spec := resourcev1.ResourceSliceSpec{Devices: make([]resourcev1.Device, 3)}
	if n := mostDevices(&spec); n != 128 {
		t.Errorf("%d without taints", n)
	}
	spec.Devices[2].Taints = make([]resourcev1.DeviceTaint, 1)
	if n := mostDevices(&spec); n != 64 {
		t.Errorf("%d with taints", n)
	}
}
