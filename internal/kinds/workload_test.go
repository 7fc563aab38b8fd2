package kinds_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"

	"github.com/google/go-cmp/cmp"
)

// TestGeneration checks which changes increment the generation.
func TestGeneration(t *testing.T) {
	const spec = `spec: {replicas: 1, template: {spec: {containers: [{name: a}]}}}`
	for _, c := range []struct {
		plural, subresource, old, obj string
		want                          any
	}{
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{metadata: {generation: 9}, ` + spec + `}`, int64(3)},
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{spec: {replicas: 2}}`, int64(4)},
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{metadata: {annotations: {a: b}}, ` + spec + `}`, int64(4)},
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{metadata: {labels: {a: b}}, ` + spec + `, status: {replicas: 3}}`, int64(3)},
		{"pods", "", `{metadata: {generation: 3}, spec: {containers: [{name: a, image: b}]}}`, `{spec: {containers: [{name: a, image: c}]}}`, int64(4)},
		{"pods", "", `{metadata: {generation: 3}, spec: {}}`, `{metadata: {annotations: {a: b}}, spec: {}}`, int64(3)},
		{"jobs", "", `{metadata: {generation: 3}, spec: {}}`, `{spec: {suspend: true}}`, int64(4)},
		{"configmaps", "", `{data: {a: b}}`, `{data: {a: c}}`, nil},
	} {
		obj := kindtest.Decode(t, c.plural, c.obj)
		kindtest.Definition(t, c.plural).Strategy.PrepareUpdate(obj, kindtest.Decode(t, c.plural, c.old))
		if got := kind.Get(obj, "metadata", "generation"); got != c.want {
			t.Errorf("%s %s: got %v, want %v", c.plural, c.obj, got, c.want)
		}
	}
}

// TestSubresources checks which fields can be written through which subresource.
func TestSubresources(t *testing.T) {
	for _, c := range []struct{ plural, subresource, old, obj, want string }{
		{"namespaces", "", `{spec: {finalizers: [kubernetes]}, status: {phase: Active}}`, `{spec: {finalizers: []}, status: {phase: Terminating}}`,
			`{metadata: {}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}`},
		{"namespaces", "status", `{spec: {finalizers: [kubernetes]}}`, `{spec: {}, status: {phase: Terminating}}`,
			`{metadata: {}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating}}`},
		{"namespaces", "finalize", `{spec: {finalizers: [kubernetes]}}`, `{spec: {}, status: {phase: Terminating}}`,
			`{metadata: {}, spec: {}, status: {phase: Active}}`},
		{"deployments", "status", `{metadata: {labels: {a: b}}}`, `{metadata: {labels: {c: d}, annotations: {x: z}}, spec: {replicas: 7}, status: {replicas: 7}}`,
			`{metadata: {labels: {a: b}, annotations: {x: z}}, status: {replicas: 7}}`},
		{"pods", "status", `{metadata: {ownerReferences: [{name: a}]}, status: {qosClass: Burstable}}`, `{status: {phase: Running}}`,
			`{metadata: {ownerReferences: [{name: a, apiVersion: "", kind: "", uid: ""}]}, status: {phase: Running, qosClass: Burstable}}`},
	} {
		d := kindtest.Definition(t, c.plural)
		obj, old := kindtest.Decode(t, c.plural, c.obj), kindtest.Decode(t, c.plural, c.old)
		if c.subresource == "" {
			d.Strategy.PrepareUpdate(obj, old)
		} else {
			d.Storage.Subresource(c.subresource).Prepare(obj, old)
		}
		delete(obj, "apiVersion")
		delete(obj, "kind")
		if c.plural != "namespaces" {
			if diff := cmp.Diff(old["spec"], obj["spec"]); diff != "" {
				t.Errorf("%s/%s: the spec changes: %s", c.plural, c.subresource, diff)
			}
			delete(obj, "spec")
		}
		if diff := cmp.Diff(kindtest.Parse(t, c.want), obj); diff != "" {
			t.Errorf("%s/%s: %s", c.plural, c.subresource, diff)
		}
	}
}

func TestScale(t *testing.T) {
	scale := kindtest.Definition(t, "deployments").Storage.Scale
	d := kindtest.Decode(t, "deployments", `{spec: {selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}}}`)
	if got := scale.SelectorOf(d); got != "a=b,c" {
		t.Errorf("selector is %q", got)
	}
	if got := kind.Get(d, scale.Replicas...); got != int64(1) {
		t.Errorf("replicas are %v", got)
	}
}
