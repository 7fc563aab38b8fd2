package devices

import (
	"context"
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

// TestWorkOfSelectors checks that selectors which take too much work are rejected before they are
// compiled: the chain of 40 calls would not end.
func TestWorkOfSelectors(t *testing.T) {
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
	large := resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: strings.Repeat("1==1||", 800) + "true"}}
	// Many errors at the end of a long line.
	wrong := resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: "'" + strings.Repeat("a", 700) + "'==''" + strings.Repeat("||u", 90)}}
	const (
		one = "exactly.selectors[0].cel.expression: Forbidden: too complex, compiling the expression takes more than 2000000 units of work"
		all = ".cel.expression: Forbidden: too complex, compiling all expressions of the object takes more than 10000000 units of work"
	)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	class := &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{chain(40)}}}
	template := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim(1, chain(40)).Spec}}
	for _, c := range []struct {
		name string
		errs field.ErrorList
		want string // in the last error
		most int    // errors
	}{
		{"a claim", validateResourceClaim(t.Context(), claim(2, chain(3)), nil), "", 0},
		{"a claim with a long chain", validateResourceClaim(t.Context(), claim(1, chain(40)), nil), "spec.devices.requests[0]." + one, 1},
		{"a claim with many selectors", validateResourceClaim(t.Context(), claim(16, large), nil), all, 11},
		{"a claim with many wrong selectors", validateResourceClaim(t.Context(), claim(32, wrong, wrong, wrong, wrong), nil), all, 128},
		{"a claim of a client that has disconnected", validateResourceClaim(ended, claim(1, chain(3)), nil), "context canceled", 1},
		{"a template", validateResourceClaimTemplate(t.Context(), template, nil), "spec.spec.devices.requests[0]." + one, 1},
		{"a class", validateDeviceClass(t.Context(), class, nil), "spec.selectors[0].cel.expression: Forbidden: too complex, compiling the expression takes more than", 1},
	} {
		got := ""
		if len(c.errs) > 0 {
			got = c.errs[len(c.errs)-1].Error()
		}
		if len(c.errs) > c.most || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %d errors, %.300s, want %q", c.name, len(c.errs), got, c.want)
		}
	}
}
