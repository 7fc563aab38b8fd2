package pods

import (
	"strings"
	"testing"
)

const restrictionHead = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"

func TestPodTolerationRestriction(t *testing.T) {
	const (
		config   = restrictionHead + "default: [{key: cluster, operator: Exists}]\nwhitelist: [{key: cluster, operator: Exists}, {key: node.kubernetes.io/memory-pressure, operator: Exists}]"
		pressure = `{key: node.kubernetes.io/memory-pressure, operator: Exists, effect: NoSchedule}`
		cluster  = `pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist`
		ofNs     = `pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist`
	)
	annotated := func(defaults, allowed string) string {
		return `{metadata: {annotations: {scheduler.alpha.kubernetes.io/defaultTolerations: '` + defaults + `', scheduler.alpha.kubernetes.io/tolerationsWhitelist: '` + allowed + `'}}}`
	}
	pod := func(tolerations string) string {
		return `{spec: {containers: [{name: c}], tolerations: [` + tolerations + `]}}`
	}
	asking := func(tolerations string) string {
		return strings.Replace(pod(tolerations), "{name: c}", "{name: c, resources: {requests: {cpu: 1}}}", 1)
	}
	for _, namespace := range []struct {
		name, config, object string
		scenarios            []scenario
	}{
		{"no configuration", "", `{}`, []scenario{
			{name: "best effort", write: write{object: `{spec: {containers: [{name: c}]}}`}, want: `{spec: {containers: [{name: c}]}}`},
			{name: "burstable", write: write{object: asking("")}, want: asking(pressure)},
			{name: "burstable update", write: write{object: asking("{key: a, operator: Exists}"), old: `{}`}, want: asking("{key: a, operator: Exists}, " + pressure)},
			{name: "by its status", write: write{object: `{spec: {}, status: {qosClass: Burstable}}`}, want: `{spec: {tolerations: [` + pressure + `]}, status: {qosClass: Burstable}}`},
			{name: "status", write: write{resource: "pods/status", object: asking(""), old: `{}`}},
		}},
		{"of the cluster", config, `{metadata: {annotations: {other: x}}}`, []scenario{
			{name: "added", write: write{object: `{spec: {containers: [{name: c}]}}`}, want: pod("{key: cluster, operator: Exists}")},
			{name: "burstable", write: write{object: asking("")}, want: asking("{key: cluster, operator: Exists}, " + pressure)},
			{name: "narrower", write: write{object: pod("{key: cluster, operator: Equal, value: x}")}, want: pod("{key: cluster, operator: Exists}")},
			{name: "not allowed", write: write{object: pod("{key: a, operator: Exists}")}, err: cluster, code: 500},
			{name: "an update adds none", write: write{object: pod("{key: cluster, operator: Equal, value: x}"), old: `{}`}, want: pod("{key: cluster, operator: Equal, value: x}")},
			{name: "an update that is not allowed", write: write{object: pod("{key: a, operator: Exists}"), old: `{}`}, err: cluster, code: 500},
		}},
		{"of the namespace", config, annotated(`[{"key": "ns", "operator": "Exists"}]`, `[{"key": "ns", "operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b"}]`), []scenario{
			{name: "added", write: write{object: pod("{key: a, operator: Equal, value: b}")}, want: pod("{key: a, operator: Equal, value: b}, {key: ns, operator: Exists}")},
			{name: "not allowed", write: write{object: pod("{key: a, operator: Exists}")}, err: ofNs, code: 500},
			{name: "only allowed in the cluster", write: write{object: pod("{key: cluster, operator: Exists}")}, err: ofNs, code: 500},
		}},
		{"empty", config, annotated("", ""), []scenario{
			{name: "nothing added, all allowed", write: write{object: pod("{key: a, operator: Exists}")}, want: pod("{key: a, operator: Exists}")},
		}},
		{"null", config, annotated("null", "[]"), []scenario{
			{name: "nothing added, all allowed", write: write{object: pod("{key: a, operator: Exists}")}, want: pod("{key: a, operator: Exists}")},
		}},
		{"invalid", config, annotated("x", "y"), []scenario{
			{name: "defaults", write: write{object: pod("")}, err: "invalid character 'x' looking for beginning of value", code: 500},
			{name: "whitelist", write: write{object: pod("{key: a, operator: Exists}"), old: `{}`}, err: "invalid character 'y' looking for beginning of value", code: 500},
		}},
	} {
		t.Run(namespace.name, func(t *testing.T) {
			p, err := NewPodTolerationRestriction(newState(t, map[string]string{"namespaces/ns": namespace.object}), []byte(namespace.config))
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, namespace.scenarios)
		})
	}
	p, err := NewPodTolerationRestriction(newState(t, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, p, []scenario{{name: "no namespace", write: write{object: pod("")}, err: `namespaces "ns" not found`, code: 404}})
}

func TestPodTolerationRestrictionConfiguration(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"empty", restrictionHead, ""},
		{"another kind", "apiVersion: v1\nkind: ConfigMap\n", `kind is "ConfigMap" and apiVersion is "v1": want a Configuration of podtolerationrestriction.admission.k8s.io/v1alpha1`},
		{"an unknown field", restrictionHead + "allowed: []", `unknown field "allowed"`},
		{"invalid default", restrictionHead + "default: [{key: a, operator: Exists, value: b}]", "invalid config: [podtolerationrestriction.default[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"},
		{"invalid whitelist", restrictionHead + "whitelist: [{operator: Equal}]", "invalid config: [podtolerationrestriction.whitelist[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty"},
	} {
		got := ""
		if _, err := NewPodTolerationRestriction(nil, []byte(tc.config)); err != nil {
			got = err.Error()
		}
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
