package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

func TestFrontends(t *testing.T) {
	const slice = `{addressType: IPv4, ports: [{name: http, protocol: TCP, port: 8080}, {name: dns, protocol: UDP, port: 53}], endpoints: [%s]}`
	const ready = `{addresses: [127.77.0.2], nodeName: own, conditions: {ready: true}}, {addresses: [127.77.0.1], nodeName: other}, {addresses: [127.77.0.1]}`
	const leaving = `{addresses: [127.77.0.4], conditions: {ready: false, serving: true, terminating: true}}, {addresses: [127.77.0.5], conditions: {ready: false, serving: false, terminating: true}},
		{addresses: [127.77.0.6], conditions: {ready: false, serving: true}}`
	for _, test := range []struct{ service, endpoints, want string }{
		{`{clusterIP: 127.96.0.5, ports: [{name: http, protocol: TCP, port: 80}]}`, ready, "TCP 127.96.0.5:80 [127.77.0.1:8080 127.77.0.2:8080] 0s"},
		{`{clusterIP: 127.96.0.5, ports: [{name: http, protocol: TCP, port: 80}]}`, ready + "," + leaving, "TCP 127.96.0.5:80 [127.77.0.1:8080 127.77.0.2:8080] 0s"},
		{`{clusterIP: 127.96.0.5, ports: [{name: http, protocol: TCP, port: 80}]}`, leaving, "TCP 127.96.0.5:80 [127.77.0.4:8080] 0s"},
		{`{clusterIP: 127.96.0.5, ports: [{name: dns, protocol: UDP, port: 5353}, {name: http, protocol: UDP, port: 80}, {name: x, protocol: SCTP, port: 1}]}`, ready,
			"UDP 127.96.0.5:5353 [127.77.0.1:53 127.77.0.2:53] 0s, UDP 127.96.0.5:80 [] 0s"},
		{`{clusterIP: 127.96.0.5, type: NodePort, ports: [{name: http, protocol: TCP, port: 80, nodePort: 30080}], externalTrafficPolicy: Local}`, ready,
			"TCP 127.96.0.5:80 [127.77.0.1:8080 127.77.0.2:8080] 0s, TCP 127.0.0.1:30080 [127.77.0.2:8080] 0s"},
		{`{clusterIP: 127.96.0.5, ports: [{name: http, protocol: TCP, port: 80}], internalTrafficPolicy: Local, sessionAffinity: ClientIP}`, ready, "TCP 127.96.0.5:80 [127.77.0.2:8080] 3h0m0s"},
		{`{clusterIP: 127.96.0.5, ports: [{name: http, protocol: TCP, port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 9}}}`, "", "TCP 127.96.0.5:80 [] 9s"},
		{`{clusterIP: None, ports: [{name: http, protocol: TCP, port: 80}]}`, ready, ""},
		{`{type: ExternalName, externalName: example.com, clusterIP: 127.96.0.5, ports: [{name: http, protocol: TCP, port: 80}]}`, ready, ""},
	} {
		var s corev1.Service
		var e discoveryv1.EndpointSlice
		if err := yaml.UnmarshalStrict([]byte(test.service), &s.Spec); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(fmt.Appendf(nil, slice, test.endpoints), &e); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range Frontends(&s, []discoveryv1.EndpointSlice{e}, "own", netip.MustParseAddr("127.0.0.1")) {
			got = append(got, fmt.Sprint(f.Protocol, " ", f.Address, " ", f.Backends, " ", f.Affinity))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.service, text, test.want)
		}
	}
}
