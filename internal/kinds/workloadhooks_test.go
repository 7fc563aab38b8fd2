package kinds_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"

	"github.com/google/go-cmp/cmp"
)

// TestStripAnyPod checks that the requirements by which v1beta1 selects all or no pods are removed
// beside others only.
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
			return kindtest.Decode(t, "poddisruptionbudgets", `{spec: {selector: `+selector+`}}`)
		}
		obj, d := budget(c.sent), kindtest.Definition(t, "poddisruptionbudgets")
		if c.old == "" {
			d.Strategy.PrepareCreate(obj)
		} else {
			d.Strategy.PrepareUpdate(obj, budget(c.old))
		}
		if diff := cmp.Diff(any(kindtest.Parse(t, c.want)), kind.Get(obj, "spec", "selector")); diff != "" {
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
			old = kindtest.Decode(t, c.plural, c.old)
		}
		if got := strings.Join(kindtest.Definition(t, c.plural).Strategy.Warnings(kindtest.Decode(t, c.plural, c.obj), old), "\n"); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.plural, c.obj, got, c.want)
		}
	}
}
