package devices

import (
	"fmt"
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

// TestSelectorsThatCopy checks that selectors whose macros add too much are rejected before they
// are compiled: the chain of 40 calls would not end.
func TestSelectorsThatCopy(t *testing.T) {
	chain := func(n int) resourcev1.DeviceSelector {
		return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: "optional.of(true)" + strings.Repeat(".optMap(x, x)", n) + ".hasValue()"}}
	}
	claim := func(requests int, selectors ...resourcev1.DeviceSelector) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		for i := range requests {
			wanted := resourcev1.ExactDeviceRequest{DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeAll, Selectors: selectors}
			r := resourcev1.DeviceRequest{Name: fmt.Sprint("r", i), Exactly: &wanted}
			if i%2 == 1 {
				sub := resourcev1.DeviceSubRequest{Name: "s", DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeAll, Selectors: selectors}
				r = resourcev1.DeviceRequest{Name: r.Name, FirstAvailable: []resourcev1.DeviceSubRequest{sub}}
			}
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
		}
		return c
	}
	for _, c := range []struct {
		name string
		errs field.ErrorList
		want string
	}{
		{"a claim", validateResourceClaim(claim(2, chain(3)), nil), ""},
		{"a claim with a chain beyond the limit", validateResourceClaim(claim(1, chain(7)), nil), "spec.devices.requests[0].exactly.selectors[0].cel.expression: Forbidden: too complex, calls of optMap and optFlatMap add more than 1000 nodes to the expression: chain fewer of them"},
		{"a claim with a long chain", validateResourceClaim(claim(2, chain(40)), nil), "spec.devices.requests: Forbidden: too complex, calls of optMap and optFlatMap in all selectors add more than 10000 nodes to the expressions"},
		{"a claim with many chains", validateResourceClaim(claim(32, chain(5)), nil), "spec.devices.requests: Forbidden: too complex, calls of optMap and optFlatMap in all selectors add more than 10000 nodes to the expressions"},
		{"a class", validateDeviceClass(&resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{chain(40)}}}, nil), "spec.selectors[0].cel.expression: Forbidden: too complex, calls of optMap and optFlatMap add more than 1000 nodes to the expression: chain fewer of them"},
	} {
		got := ""
		if len(c.errs) > 0 {
			got = c.errs[0].Error()
		}
		if len(c.errs) > 1 || got != c.want {
			t.Errorf("%s: %v, want %q", c.name, c.errs, c.want)
		}
	}
}
