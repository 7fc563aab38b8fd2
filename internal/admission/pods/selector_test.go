package pods

import "testing"

func TestPodNodeSelector(t *testing.T) {
	const config = `
podNodeSelectorPluginConfig:
  clusterDefaultNodeSelector: zone=a
  ns: zone=a, disk=ssd, size=big`
	pod := func(selector string) string {
		return `{metadata: {name: p}, spec: {nodeSelector: {` + selector + `}}}`
	}
	const conflict = `pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector`
	const notAllowed = `pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist`
	for _, namespace := range []struct {
		name, config, object string
		scenarios            []scenario
	}{
		{"no configuration", "", `{}`, []scenario{
			{name: "no selector", write: write{object: `{spec: {}}`}, want: `{spec: {}}`},
			{name: "any selector", write: write{object: pod("a: b")}, want: pod("a: b")},
		}},
		{"the default", config, `{metadata: {annotations: {other: x}}}`, []scenario{
			{name: "added", write: write{object: `{metadata: {name: p}}`}, want: pod("zone: a")},
			{name: "agrees", write: write{object: pod("zone: a, disk: ssd")}, want: pod("zone: a, disk: ssd")},
			{name: "conflicts", write: write{object: pod("zone: b")}, err: conflict, code: 403},
			{name: "not allowed", write: write{object: pod("disk: hdd")}, err: notAllowed, code: 403},
			{name: "an unknown label", write: write{object: pod("other: x")}, err: notAllowed, code: 403},
			{name: "without a name", write: write{object: `{metadata: {generateName: p-}, spec: {nodeSelector: {zone: b}}}`},
				err: `pods is forbidden: pod node label selector conflicts with its namespace node label selector`, code: 403},
			{name: "update", write: write{object: pod("zone: b"), old: pod("zone: b")}},
			{name: "subresource", write: write{resource: "pods/binding", object: `{}`}},
		}},
		{"of the namespace", config, `{metadata: {annotations: {scheduler.alpha.kubernetes.io/node-selector: "disk=ssd,size=big"}}}`, []scenario{
			{name: "added", write: write{object: pod("zone: a")}, want: pod("zone: a, disk: ssd, size: big")},
			{name: "conflicts", write: write{object: pod("size: small")}, err: conflict, code: 403},
		}},
		{"of the namespace, not allowed", config, `{metadata: {annotations: {scheduler.alpha.kubernetes.io/node-selector: other=x}}}`, []scenario{
			{name: "rejected", write: write{object: pod("")}, err: notAllowed, code: 403},
		}},
		{"empty", config, `{metadata: {annotations: {scheduler.alpha.kubernetes.io/node-selector: ""}}}`, []scenario{
			{name: "nothing added", write: write{object: pod("disk: ssd")}, want: pod("disk: ssd")},
		}},
		{"invalid", config, `{metadata: {annotations: {scheduler.alpha.kubernetes.io/node-selector: "a"}}}`, []scenario{
			{name: "rejected", write: write{object: pod("")}, err: "invalid selector: [a]", code: 500},
		}},
	} {
		t.Run(namespace.name, func(t *testing.T) {
			p, err := NewPodNodeSelector(newState(t, map[string]string{"namespaces/ns": namespace.object}), []byte(namespace.config))
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, namespace.scenarios)
		})
	}
	p, err := NewPodNodeSelector(newState(t, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, p, []scenario{{name: "no namespace", write: write{object: pod("")}, err: `namespaces "ns" not found`, code: 404}})
}

func TestPodNodeSelectorConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		"":                                    "",
		"podNodeSelectorPluginConfig: {}":     "",
		"podNodeSelectorPluginConfig: {a: }":  "",
		"podNodeSelectorPluginConfig: {a: b}": "podNodeSelectorPluginConfig.a: invalid selector: [b]",
		"podNodeSelectorPluginConfig: {a: b, clusterDefaultNodeSelector: 'x==y=z'}": "podNodeSelectorPluginConfig.a: invalid selector: [b]",
		"podNodeSelectorPluginConfig: 1":                                            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go struct field .podNodeSelectorPluginConfig of type map[string]string",
		"clusterDefaultNodeSelector: a=b":                                           `error unmarshaling JSON: while decoding JSON: json: unknown field "clusterDefaultNodeSelector"`,
	} {
		got := ""
		if _, err := NewPodNodeSelector(nil, []byte(config)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", config, got, want)
		}
	}
}
