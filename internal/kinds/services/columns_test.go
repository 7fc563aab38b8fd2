package services_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

func TestServiceCells(t *testing.T) {
	const created = `creationTimestamp: "2026-05-06T07:03:09Z"` // five minutes ago
	kindtest.Cells(t, []kindtest.CellsCase{
		{"services", `{metadata: {name: a, ` + created + `}, spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], selector: {b: c, a: d}, ports: [{port: 80}, {port: 53, protocol: UDP}]}}`,
			`a|ClusterIP|10.96.0.7|<none>|80/TCP,53/UDP|5m|a=d,b=c`},
		{"services", `{metadata: {name: a}, spec: {type: NodePort, clusterIPs: [10.96.0.7], externalIPs: [1.2.3.4, 1.2.3.5], ports: [{port: 80, nodePort: 30080}]}}`,
			`a|NodePort|10.96.0.7|1.2.3.4,1.2.3.5|80:30080/TCP|<unknown>|<none>`},
		{"services", `{metadata: {name: a}, spec: {clusterIP: None, clusterIPs: [None]}}`, `a|ClusterIP|None|<none>|<none>|<unknown>|<none>`},
		{"services", `{metadata: {name: a}, spec: {type: ExternalName, externalName: x.example.com}}`, `a|ExternalName|<none>|x.example.com|<none>|<unknown>|<none>`},
		{"services", `{metadata: {name: a}, spec: {type: LoadBalancer}}`, `a|LoadBalancer|<none>|<pending>|<none>|<unknown>|<none>`},
		{"services", `{metadata: {name: a}, spec: {type: LoadBalancer, externalIPs: [9.9.9.9]}, status: {loadBalancer: {ingress: [{ip: 2.2.2.2, hostname: h}, {hostname: a.b}]}}}`,
			`a|LoadBalancer|<none>|2.2.2.2,a.b,9.9.9.9|<none>|<unknown>|<none>`},
		{"services", `{metadata: {name: a}, spec: {type: Other}}`, `a|Other|<none>|<unknown>|<none>|<unknown>|<none>`},

		{"endpoints", `{metadata: {name: a, ` + created + `}, subsets: [{addresses: [{ip: 10.0.0.1}, {ip: "fd00::1"}], ports: [{port: 80}, {name: x, port: 443}]}]}`,
			`a|10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 1 more...|5m`},
		{"endpoints", `{metadata: {name: a}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}`, `a|10.0.0.1|<unknown>`},
		{"endpoints", `{metadata: {name: a}, subsets: [{notReadyAddresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]}`, `a||<unknown>`},
		{"endpoints", `{metadata: {name: a}}`, `a|<none>|<unknown>`},

		{"endpointslices", `{metadata: {name: a}, addressType: IPv4, ports: [{port: 80}, {name: x}, {port: 1}, {port: 2}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]}`,
			`a|IPv4|80,x,1 + 1 more...|10.0.0.1,10.0.0.2|<unknown>`},
		{"endpointslices", `{metadata: {name: a}, addressType: FQDN}`, `a|FQDN|<unset>|<unset>|<unknown>`},

		{"ingresses", `{metadata: {name: a}, spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}`, `a|<none>|*||80|<unknown>`},
		{"ingresses", `{metadata: {name: a}, spec: {ingressClassName: c, tls: [{}], rules: [{host: a.b}, {}, {host: c.d}, {host: e.f}, {host: g.h}]}, status: {loadBalancer: {ingress: [{hostname: z}, {ip: 1.1.1.1}]}}}`,
			`a|c|a.b,c.d,e.f + 2 more...|1.1.1.1,z|80, 443|<unknown>`},
		{"ingressclasses", `{metadata: {name: a, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: x/y, parameters: {apiGroup: g, kind: K, name: nn}}}`,
			`a (default)|x/y|K.g/nn|<unknown>`},
		{"ingressclasses", `{metadata: {name: a}, spec: {controller: x/y}}`, `a|x/y|<none>|<unknown>`},
		{"networkpolicies", `{metadata: {name: a}, spec: {podSelector: {}}}`, `a|<none>|<unknown>`},
		{"networkpolicies", `{metadata: {name: a}, spec: {podSelector: {matchLabels: {a: b}}}}`, `a|a=b|<unknown>`},
		{"ipaddresses", `{metadata: {name: 10.96.0.1}, spec: {parentRef: {resource: services, namespace: default, name: kubernetes}}}`, `10.96.0.1|services/default/kubernetes`},
		{"ipaddresses", `{metadata: {name: 10.96.0.1}, spec: {parentRef: {group: G.example.com, resource: things, name: x}}}`, `10.96.0.1|things.g.example.com/x`},
		{"servicecidrs", `{metadata: {name: a}, spec: {cidrs: [10.96.0.0/12, "fd00::/64"]}}`, `a|10.96.0.0/12,fd00::/64|<unknown>`},
	})
}
