package kinds_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

// TestControlCells checks the cells of kinds about the control plane.
func TestControlCells(t *testing.T) {
	kindtest.Cells(t, []kindtest.CellsCase{
		{"roles", `{metadata: {name: a, creationTimestamp: "2026-05-06T07:00:00Z"}}`, "a|2026-05-06T07:00:00Z"},
		{"rolebindings", `{metadata: {name: a}, roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: u}, {kind: User, name: v}, {kind: Group, name: g}, {kind: ServiceAccount, namespace: ns, name: s}]}`,
			"a|Role/r|<unknown>|u, v|g|ns/s"},
		{"clusterrolebindings", `{metadata: {name: a}, roleRef: {kind: ClusterRole, name: r}}`, "a|ClusterRole/r|<unknown>|||"},
		{"mutatingwebhookconfigurations", `{metadata: {name: a}, webhooks: [{name: b}, {name: c}]}`, "a|2|<unknown>"},
		{"validatingadmissionpolicies", `{metadata: {name: a}, spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "true"}]}}`, "a|1|v1/ConfigMap|<unknown>"},
		{"mutatingadmissionpolicies", `{metadata: {name: a}}`, "a|0|<unset>|<unknown>"},
		{"validatingadmissionpolicybindings", `{metadata: {name: a}, spec: {policyName: p, paramRef: {name: b}}}`, "a|p|*/b|<unknown>"},
		{"mutatingadmissionpolicybindings", `{metadata: {name: a}, spec: {policyName: p, paramRef: {name: b, namespace: ns}}}`, "a|p|ns/b|<unknown>"},
		{"certificatesigningrequests", `{metadata: {name: a}, spec: {signerName: a.b/c, username: u, expirationSeconds: 7200}, status: {certificate: YQ==, conditions: [{type: Approved, status: "True"}]}}`,
			"a|<unknown>|a.b/c|u|120m|Approved,Issued"},
		{"certificatesigningrequests", `{metadata: {name: a}, status: {conditions: [{type: Failed, status: "True"}, {type: Denied, status: "True"}]}}`, "a|<unknown>|<none>||<none>|Denied,Failed"},
		{"clustertrustbundles", `{metadata: {name: a}}`, "a|<none>"},
		{"podcertificaterequests", `{metadata: {name: a}, spec: {podName: p, serviceAccountName: s, nodeName: node, signerName: a.b/c}, status: {conditions: [{type: Issued, status: "True"}]}}`, "a|p|s|node|a.b/c|Issued|<none>"},
		{"apiservices", `{metadata: {name: v1.}}`, "v1.|Local|Unknown|<unknown>"},
		{"apiservices", `{metadata: {name: a}, spec: {service: {namespace: ns, name: s}}, status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints}]}}`, "a|ns/s|False (MissingEndpoints)|<unknown>"},
		{"flowschemas", `{metadata: {name: a}, spec: {priorityLevelConfiguration: {name: p}}, status: {conditions: [{type: Dangling, status: "False"}]}}`, "a|p|1000|<none>|<unknown>|False"},
		{"prioritylevelconfigurations", `{metadata: {name: a}, spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}}`, "a|Limited|30|64|8|50|<unknown>"},
		{"prioritylevelconfigurations", `{metadata: {name: exempt}, spec: {type: Exempt}}`, "exempt|Exempt|<none>|<none>|<none>|<none>|<unknown>"},
		{"resourceclaims", `{metadata: {name: a}}`, "a|pending|<unknown>"},
		{"resourceclaims", `{metadata: {name: a, deletionTimestamp: "2026-05-06T07:07:09Z"}, status: {allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}]}}`, "a|deleted,allocated,reserved|<unknown>"},
		{"resourceslices", `{metadata: {name: a}, spec: {driver: d, nodeName: node, pool: {name: p}}}`, "a|node|d|p|<unknown>"},
		{"devicetaintrules", `{metadata: {name: a}, spec: {taint: {key: k, value: v, effect: NoExecute, timeAdded: "2026-05-06T07:07:09Z"}}}`, "a|k|v|NoExecute|60s|<unknown>"},
	})
}
