package services

import (
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// serviceOf returns a service with its defaults.
func serviceOf(t *testing.T, spec string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	defaults.New(Defaults).VisitAll(s)
	return s
}

// TestNetworkOf checks how the IP families and addresses of services are completed.
func TestNetworkOf(t *testing.T) {
	for _, c := range []struct{ spec, old, want string }{
		{`{}`, ``, `SingleStack IPv4`},
		{`{type: ExternalName}`, ``, ` `},
		{`{ipFamilyPolicy: PreferDualStack}`, ``, `PreferDualStack IPv4`},
		{`{ipFamilyPolicy: RequireDualStack}`, ``, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		{`{clusterIP: None, clusterIPs: [None]}`, ``, `RequireDualStack IPv4,IPv6 None`},
		{`{clusterIP: None, clusterIPs: [None], selector: {a: b}}`, ``, `SingleStack IPv4 None`},
		{`{clusterIP: None, clusterIPs: [None], ipFamilies: [IPv6], ipFamilyPolicy: PreferDualStack}`, ``, `PreferDualStack IPv6,IPv4 None`},
		{`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}`, ``, `SingleStack IPv4 10.0.0.1`},
		{`{clusterIP: "fd00::1", clusterIPs: ["fd00::1"]}`, ``, `spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`},
		{`{ipFamilies: [IPv6]}`, ``, `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		{`{clusterIP: 10.0.0.1}`, ``, `spec.clusterIPs: Required value`},

		// A service from another cluster may keep or drop its second address.
		{`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: SingleStack}`,
			`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}`, `SingleStack IPv4 10.0.0.1`},
		{`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}`,
			`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}`, `PreferDualStack IPv4,IPv6 10.0.0.1,fd00::1`},
		{`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}`,
			`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}`,
			`spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the secondary cluster IP`},
	} {
		var old *corev1.Service
		if c.old != "" {
			old = serviceOf(t, c.old)
		}
		s := serviceOf(t, c.spec)
		before := s.DeepCopy()
		n, errs := networkOf(s, old)
		var families []string
		for _, family := range n.Families {
			families = append(families, string(family))
		}
		policy := ""
		if n.Policy != nil {
			policy = string(*n.Policy)
		}
		got := strings.TrimRight(policy+" "+strings.Join(families, ",")+" "+strings.Join(n.ClusterIPs, ","), " ")
		if len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != strings.TrimRight(c.want, " ") {
			t.Errorf("%s after %s:\n got %s\nwant %s", c.spec, c.old, got, c.want)
		}
		if s.String() != before.String() {
			t.Errorf("%s: the service has changed", c.spec)
		}
	}
}

// TestServiceTwoAddresses checks updates of services to which another cluster gave two addresses.
// The oracle has no such case, as its cluster has one family.
func TestServiceTwoAddresses(t *testing.T) {
	const ports = `ports: [{port: 80}]`
	const two = `{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack, ` + ports + `}`
	for _, c := range []struct {
		spec string
		want []string
	}{
		{two, nil},
		{`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ` + ports + `}`, nil},
		{`{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::2"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack, ` + ports + `}`, []string{"spec.ipFamilies[1]"}},
		{`{clusterIP: 10.0.0.2, clusterIPs: [10.0.0.2], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ` + ports + `}`, []string{"spec.clusterIPs[0]"}},
	} {
		var got []string
		for _, err := range validateService(serviceOf(t, c.spec), serviceOf(t, two)) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.spec, got, c.want)
		}
	}
}
