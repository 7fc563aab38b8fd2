package builtin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTemplateGeneration: clients neither set nor lose the number of the template.
func TestTemplateGeneration(t *testing.T) {
	daemons := func(annotations, template string) string {
		return `{apiVersion: apps/v1, metadata: {generation: 5, annotations: {` + annotations + `}}, spec: {template: {metadata: {labels: {` + template + `}}}}}`
	}
	const counted = `deprecated.daemonset.template.generation: `
	d := definitionOf(t, "daemonsets")
	for sent, want := range map[string]string{``: "1", counted + `"7"`: "7", counted + `"-7"`: "1", counted + `x`: "1"} {
		obj := create(t, "daemonsets", daemons(sent, ``))
		if got := text(obj, "metadata", "annotations", "deprecated.daemonset.template.generation"); got != want {
			t.Errorf("created with %q: %s, want %s", sent, got, want)
		}
	}
	for _, c := range []struct{ annotations, template, subresource, want string }{
		{``, ``, "", `{annotations: {` + counted + `"3"}, generation: 5}`},
		{counted + `"9", a: b`, ``, "", `{annotations: {a: b, ` + counted + `"3"}, generation: 5}`},
		{``, `x: z`, "", `{annotations: {` + counted + `"4"}, generation: 6}`},
		{counted + `"9"`, `x: z`, "status", `{annotations: {` + counted + `"3"}, generation: 5}`},
	} {
		obj, old := decode(t, "daemonsets", daemons(c.annotations, c.template)), decode(t, "daemonsets", daemons(counted+`"3"`, ``))
		if c.subresource == "" {
			d.Hooks.PrepareUpdate(obj, old)
		} else {
			d.Storage.Subresource(c.subresource).Prepare(obj, old)
		}
		if diff := cmp.Diff(any(parse(t, c.want)), obj["metadata"]); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

// TestStripAnyPod: what v1beta1 says all and nothing with means only that, and only alone.
func TestStripAnyPod(t *testing.T) {
	const exists, absent, other = `{key: pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match, operator: Exists}`,
		`{key: pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match, operator: DoesNotExist}`, `{key: x, operator: Exists}`
	for _, c := range []struct{ old, sent, want string }{
		{``, `{}`, `{}`},
		{``, `{matchLabels: {a: b}}`, `{matchLabels: {a: b}}`},
		{``, `{matchExpressions: [` + exists + `]}`, `{matchExpressions: [` + exists + `]}`},
		{``, `{matchExpressions: [` + absent + `]}`, `{}`},
		{``, `{matchExpressions: [` + exists + `, ` + other + `]}`, `{matchExpressions: [` + other + `]}`},
		{``, `{matchLabels: {a: b}, matchExpressions: [` + exists + `]}`, `{matchLabels: {a: b}}`},
		{`{matchExpressions: [` + absent + `]}`, `{matchExpressions: [` + absent + `]}`, `{matchExpressions: [` + absent + `]}`},
		{`{}`, `{matchExpressions: [` + absent + `]}`, `{}`},
	} {
		budget := func(selector string) map[string]any {
			return decode(t, "poddisruptionbudgets", `{spec: {selector: `+selector+`}}`)
		}
		obj, d := budget(c.sent), definitionOf(t, "poddisruptionbudgets")
		if c.old == "" {
			d.Hooks.PrepareCreate(obj)
		} else {
			d.Hooks.PrepareUpdate(obj, budget(c.old))
		}
		if diff := cmp.Diff(any(parse(t, c.want)), get(obj, "spec", "selector")); diff != "" {
			t.Errorf("%s after %q: %s", c.sent, c.old, diff)
		}
	}
}

func TestWorkloadWarnings(t *testing.T) {
	const (
		dotted  = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
		indexes = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, " +
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
		claims = `volumeClaimTemplates: [{spec: {resources: {requests: {storage: 1500m}, limits: {storage: 2}}}}]`
	)
	for _, c := range []struct{ plural, obj, old, want string }{
		{"replicasets", `{metadata: {name: a.b}}`, "", dotted},
		{"replicasets", `{metadata: {name: a.b}}`, `{metadata: {name: a.b}}`, ""},
		{"replicationcontrollers", `{metadata: {name: a.b}}`, "", dotted},
		{"cronjobs", `{metadata: {name: a.b}}`, "", dotted},
		{"cronjobs", `{spec: {schedule: "TZ=UTC * * * * *"}}`, `{}`, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"},
		{"jobs", `{metadata: {name: a}, spec: {completionMode: Indexed, completions: 100001, parallelism: 10001}}`, "", "spec: " + indexes},
		{"jobs", `{metadata: {name: a}, spec: {completionMode: Indexed, completions: 100001, parallelism: 10000}}`, "", ""},
		{"jobs", `{metadata: {name: a}, spec: {completions: 100001, parallelism: 10001}}`, "", ""},
		{"cronjobs", `{metadata: {name: a}, spec: {jobTemplate: {spec: {completionMode: Indexed, completions: 100001, parallelism: 10001}}}}`, "", "spec.jobTemplate.spec: " + indexes},
		{"cronjobs", `{metadata: {name: a, generation: 1}, spec: {jobTemplate: {spec: {completionMode: Indexed, completions: 100001, parallelism: 10001}}}}`, `{metadata: {generation: 1}}`, ""},
		{"statefulsets", `{spec: {revisionHistoryLimit: -1}}`, "", "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"},
		{"statefulsets", `{spec: {` + claims + `}}`, "", `spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`},
		{"statefulsets", `{spec: {` + claims + `}}`, `{}`, `spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`},
	} {
		var old map[string]any
		if c.old != "" {
			old = decode(t, c.plural, c.old)
		}
		if got := strings.Join(definitionOf(t, c.plural).Hooks.Warnings(decode(t, c.plural, c.obj), old), "\n"); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.plural, c.obj, got, c.want)
		}
	}
}

func TestReplicationControllerScale(t *testing.T) {
	scale := definitionOf(t, "replicationcontrollers").Storage.Scale
	if got := scale.SelectorOf(decode(t, "replicationcontrollers", `{spec: {selector: {c: d, a: b}}}`)); got != "a=b,c=d" {
		t.Errorf("selector is %q", got)
	}
}
