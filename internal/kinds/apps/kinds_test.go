package apps_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"

	"github.com/google/go-cmp/cmp"
)

// TestTemplateGeneration checks that clients can neither set nor remove the generation of the
// template.
func TestTemplateGeneration(t *testing.T) {
	daemons := func(annotations, template string) string {
		return `{apiVersion: apps/v1, metadata: {generation: 5, annotations: {` + annotations + `}}, spec: {template: {metadata: {labels: {` + template + `}}}}}`
	}
	const counted = `deprecated.daemonset.template.generation: `
	d := kindtest.Definition(t, "daemonsets")
	for sent, want := range map[string]string{``: "1", counted + `"7"`: "7", counted + `"-7"`: "1", counted + `x`: "1"} {
		obj := kindtest.New(t, "daemonsets", daemons(sent, ``))
		if got := kind.Text(obj, "metadata", "annotations", "deprecated.daemonset.template.generation"); got != want {
			t.Errorf("created with %q: %s, want %s", sent, got, want)
		}
	}
	for _, c := range []struct{ annotations, template, subresource, want string }{
		{``, ``, "", `{annotations: {` + counted + `"3"}, generation: 5}`},
		{counted + `"9", a: b`, ``, "", `{annotations: {a: b, ` + counted + `"3"}, generation: 5}`},
		{``, `x: z`, "", `{annotations: {` + counted + `"4"}, generation: 6}`},
		{counted + `"9"`, `x: z`, "status", `{annotations: {` + counted + `"3"}, generation: 5}`},
	} {
		obj, old := kindtest.Decode(t, "daemonsets", daemons(c.annotations, c.template)), kindtest.Decode(t, "daemonsets", daemons(counted+`"3"`, ``))
		if c.subresource == "" {
			d.Strategy.PrepareUpdate(obj, old)
		} else {
			d.Storage.Subresource(c.subresource).Prepare(obj, old)
		}
		if diff := cmp.Diff(any(kindtest.Parse(t, c.want)), obj["metadata"]); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

func TestReplicationControllerScale(t *testing.T) {
	scale := kindtest.Definition(t, "replicationcontrollers").Storage.Scale
	if got := scale.SelectorOf(kindtest.Decode(t, "replicationcontrollers", `{spec: {selector: {c: d, a: b}}}`)); got != "a=b,c=d" {
		t.Errorf("selector is %q", got)
	}
}
