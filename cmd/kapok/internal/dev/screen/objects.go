package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A row is an object in the list. Its texts are clean.
type row struct {
	depth            int // 0 for objects of the project, one more for each owner
	kind, name       string
	state            string
	created          time.Time
	namespace, plain string // for the order: name without the namespace
}

// A table knows the objects of all kinds that are watched. It is safe for concurrent use.
type table struct {
	mu      sync.Mutex
	objects map[schema.GroupKind]map[types.UID]*object
	own     map[schema.GroupKind]bool // kinds of the project
	samples map[dev.Sample]bool
}

type object struct {
	row
	uid    types.UID
	sample dev.Sample // its version is "": a sample may have another one
	owners []types.UID
}

func newTable() *table {
	return &table{objects: map[schema.GroupKind]map[types.UID]*object{}, own: map[schema.GroupKind]bool{}}
}

// setSamples replaces the samples.
func (t *table) setSamples(samples []dev.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples = map[dev.Sample]bool{}
	for _, s := range samples {
		s.Kind.Version = ""
		t.samples[s] = true
	}
}

// setOwn sets whether a kind is one of the project.
func (t *table) setOwn(kind schema.GroupKind, own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own[kind] = own
}

// put adds or replaces an object.
func (t *table) put(kind schema.GroupKind, u *unstructured.Unstructured) {
	o := &object{
		uid: u.GetUID(), sample: dev.Sample{Kind: kind.WithVersion(""), Namespace: u.GetNamespace(), Name: u.GetName()},
		row: row{
			kind: clean(kind.Kind), namespace: clean(u.GetNamespace()), plain: clean(u.GetName()),
			state: clean(stateOf(u)), created: u.GetCreationTimestamp().Time,
		},
	}
	o.name = strings.TrimPrefix(o.namespace+"/"+o.plain, "/")
	for _, owner := range u.GetOwnerReferences() {
		o.owners = append(o.owners, owner.UID)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects[kind] == nil {
		t.objects[kind] = map[types.UID]*object{}
	}
	t.objects[kind][o.uid] = o
}

// remove removes an object.
func (t *table) remove(kind schema.GroupKind, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects[kind], uid)
}

// drop removes all objects of a kind.
func (t *table) drop(kind schema.GroupKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, kind)
}

// rows returns the objects of the project by kind, namespace and name, and after each of them those
// that it owns.
func (t *table) rows() []row {
	t.mu.Lock()
	defer t.mu.Unlock()
	var roots []*object
	dependents := map[types.UID][]*object{}
	for kind, objects := range t.objects {
		for _, o := range objects {
			if t.own[kind] || t.samples[o.sample] {
				roots = append(roots, o)
			}
			for _, owner := range o.owners {
				dependents[owner] = append(dependents[owner], o)
			}
		}
	}
	sorted := func(all []*object) []*object {
		slices.SortFunc(all, func(a, b *object) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.plain, b.plain), cmp.Compare(a.uid, b.uid))
		})
		return all
	}
	var rows []row
	seen := map[types.UID]bool{}
	var add func(o *object, depth int)
	add = func(o *object, depth int) {
		if seen[o.uid] {
			return
		}
		seen[o.uid] = true
		r := o.row
		r.depth = depth
		rows = append(rows, r)
		for _, d := range sorted(dependents[o.uid]) {
			add(d, depth+1)
		}
	}
	// An object of the project that another one owns comes below its owner.
	isRoot := map[types.UID]bool{}
	for _, o := range roots {
		isRoot[o.uid] = true
	}
	owned := func(o *object) bool {
		return slices.ContainsFunc(o.owners, func(uid types.UID) bool { return isRoot[uid] && uid != o.uid })
	}
	for _, o := range sorted(roots) {
		if !owned(o) {
			add(o, 0)
		}
	}
	for _, o := range roots { // owners in a circle
		add(o, 0)
	}
	return rows
}

// stateOf describes the state of an object in a few words: how many of its replicas are ready, its
// phase, or its conditions.
func stateOf(u *unstructured.Unstructured) string {
	if u.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	status, _ := u.Object["status"].(map[string]any)
	spec, _ := u.Object["spec"].(map[string]any)
	conditions := conditionsOf(status)
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return fmt.Sprintf("%d/%d", number(status["readyReplicas"]), number(spec["replicas"]))
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return fmt.Sprintf("%d/%d", number(status["numberReady"]), number(status["desiredNumberScheduled"]))
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		for _, c := range conditions {
			if c.Status == metav1.ConditionTrue && (c.Type == "Complete" || c.Type == "Failed" || c.Type == "Suspended") {
				return c.Type
			}
		}
		return fmt.Sprintf("%d active", number(status["active"]))
	}
	phase, _ := status["phase"].(string)
	for _, name := range []string{"Ready", "Available"} {
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == name })
		switch {
		case i < 0:
			continue
		case conditions[i].Status == metav1.ConditionTrue:
			return cmp.Or(phase, name)
		case phase != "" && phase != "Running":
			return phase
		}
		return strings.TrimSuffix("Not "+strings.ToLower(name)+": "+conditions[i].Reason, ": ")
	}
	if phase != "" {
		return phase
	}
	for _, c := range slices.Backward(conditions) {
		if c.Status == metav1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// conditionsOf returns the conditions of a status. Parts that are not conditions are left out.
func conditionsOf(status map[string]any) []metav1.Condition {
	list, _ := status["conditions"].([]any)
	var all []metav1.Condition
	for _, item := range list {
		c, _ := item.(map[string]any)
		name, _ := c["type"].(string)
		value, _ := c["status"].(string)
		reason, _ := c["reason"].(string)
		if name != "" {
			all = append(all, metav1.Condition{Type: name, Status: metav1.ConditionStatus(value), Reason: reason})
		}
	}
	return all
}

// number returns a number of decoded JSON, or 0.
func number(value any) int64 {
	n, _ := value.(int64)
	return n
}
