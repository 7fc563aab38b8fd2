package screen

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func newObject(group, kind, namespace, name, uid string, owners ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID(uid))
	var references []metav1.OwnerReference
	for _, owner := range owners {
		references = append(references, metav1.OwnerReference{UID: types.UID(owner)})
	}
	u.SetOwnerReferences(references)
	return u
}

// describe returns rows as lines with their depth as indentation.
func describe(rows []row) string {
	var text strings.Builder
	for _, r := range rows {
		text.WriteString(strings.Repeat("  ", r.depth) + r.kind + " " + r.name + "\n")
	}
	return text.String()
}

// TestRows checks which objects are shown, and in which order.
func TestRows(t *testing.T) {
	widget, web := schema.GroupKind{Group: "example.com", Kind: "Widget"}, schema.GroupKind{Group: "apps", Kind: "Deployment"}
	config, secret := schema.GroupKind{Kind: "ConfigMap"}, schema.GroupKind{Kind: "Secret"}
	table := newTable()
	for _, o := range []*unstructured.Unstructured{
		newObject("example.com", "Widget", "b", "x", "1"),
		newObject("example.com", "Widget", "a", "y", "2"),
		newObject("example.com", "Widget", "a", "child", "3", "2"),
		newObject("example.com", "Widget", "c", "ring1", "10", "11"),
		newObject("example.com", "Widget", "c", "ring2", "11", "10"),
		newObject("apps", "Deployment", "a", "web", "4", "2"),
		newObject("apps", "Deployment", "a", "other", "5"),
		newObject("", "ConfigMap", "a", "of-web", "6", "4"),
		newObject("", "ConfigMap", "a", "of-none", "7", "unknown"),
		newObject("", "ConfigMap", "a", "sample", "8"),
		newObject("", "Secret", "a", "evil\x1b[2J\x1b]0;x\x07\n", "9", "1"),
	} {
		table.put(o.GroupVersionKind().GroupKind(), o)
	}
	check := func(what, want string) {
		t.Helper()
		if got := describe(table.rows()); got != want {
			t.Errorf("%s:\n%swant:\n%s", what, got, want)
		}
	}
	check("without kinds of the project", "")
	table.setOwn(widget, true)
	table.setSamples([]dev.Sample{{Kind: config.WithVersion("v1"), Namespace: "a", Name: "sample"}})
	check("with them", `ConfigMap a/sample
Widget a/y
  Deployment a/web
    ConfigMap a/of-web
  Widget a/child
Widget b/x
  Secret a/evil 
Widget c/ring1
  Widget c/ring2
`)
	table.remove(web, "4")
	table.drop(secret)
	table.setSamples(nil)
	check("after deletions", "Widget a/y\n  Widget a/child\nWidget b/x\nWidget c/ring1\n  Widget c/ring2\n")
	table.drop(widget)
	check("without the kind", "")
}

// TestState checks the column STATE.
func TestState(t *testing.T) {
	for text, want := range map[string]string{
		`{kind: ConfigMap}`: "",
		`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}, status: {readyReplicas: 1}}`:                                        "1/3",
		`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 2}}`:                                                                   "0/2",
		`{apiVersion: apps/v1, kind: DaemonSet, status: {numberReady: 1, desiredNumberScheduled: 2}}`:                                     "1/2",
		`{apiVersion: batch/v1, kind: Job, status: {active: 2}}`:                                                                          "2 active",
		`{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: "True"}]}}`:                                     "Complete",
		`{kind: Pod, status: {phase: Pending, conditions: [{type: Ready, status: "False", reason: X}]}}`:                                  "Pending",
		`{kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady}]}}`:                 "Not ready: ContainersNotReady",
		`{kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`:                                              "Running",
		`{kind: Pod, metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {phase: Running}}`:                                    "Terminating",
		`{kind: Namespace, status: {phase: Active}}`:                                                                                      "Active",
		`{kind: Widget, status: {conditions: [{type: Other, status: "True"}, {type: Ready, status: "True"}]}}`:                            "Ready",
		`{kind: Widget, status: {conditions: [{type: Available, status: "Unknown"}]}}`:                                                    "Not available",
		`{kind: Widget, status: {conditions: [{type: First, status: "True"}, {type: Next, status: "True"}, {type: X, status: "False"}]}}`: "Next",
		`{kind: Widget, status: {phase: 1, conditions: [1, {}, {type: [], status: {}}]}}`:                                                 "",
		`{kind: Widget, status: []}`: "",
	} {
		u := &unstructured.Unstructured{}
		data, err := yaml.YAMLToJSON([]byte(strings.Replace(text, "{kind", "{apiVersion: v1, kind", 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		if got := stateOf(u); got != want {
			t.Errorf("stateOf(%s) = %q, want %q", text, got, want)
		}
	}
}
