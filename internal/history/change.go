package history

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Managers returns the field managers that made a change, by the managed fields that are new, and
// the time of the change, by the same: in seconds, and zero if they do not tell it. A manager that
// has only removed fields has no entry.
func Managers(before, after []metav1.ManagedFieldsEntry) (managers []string, at time.Time) {
	for _, m := range written(before, after) {
		if !slices.Contains(managers, m.Manager) {
			managers = append(managers, m.Manager)
		}
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return managers, at
}

// written returns the entries of the managers that made a change. An entry that has only lost
// fields to another manager keeps its time. Times are in seconds: of two changes by one manager
// within a second, only the fields differ.
func written(before, after []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	unlike := func(same func(a, b *metav1.ManagedFieldsEntry) bool) (found []metav1.ManagedFieldsEntry) {
		for _, m := range after {
			if !slices.ContainsFunc(before, func(k metav1.ManagedFieldsEntry) bool { return same(&k, &m) }) {
				found = append(found, m)
			}
		}
		return found
	}
	found := unlike(func(a, b *metav1.ManagedFieldsEntry) bool {
		return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource && a.Time.Equal(b.Time)
	})
	if len(found) > 0 {
		return found
	}
	return unlike(func(a, b *metav1.ManagedFieldsEntry) bool { return equality.Semantic.DeepEqual(a, b) })
}

// silent are fields that change with every write.
var silent = []string{"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"}

// Changed returns the paths of the fields in which two objects differ, such as spec.replicas,
// sorted. A list is one value.
func Changed(before, after map[string]any) []string {
	paths := changed(before, after, "")
	slices.Sort(paths)
	return paths
}

func changed(before, after any, path string) (paths []string) {
	if slices.Contains(silent, path) {
		return nil
	}
	old, wasTree := before.(map[string]any)
	now, isTree := after.(map[string]any)
	if wasTree && isTree {
		keys := map[string]bool{}
		for k := range old {
			keys[k] = true
		}
		for k := range now {
			keys[k] = true
		}
		for k := range keys {
			below := k
			if path != "" {
				below = path + "." + k
			}
			paths = append(paths, changed(old[k], now[k], below)...)
		}
		return paths
	}
	if text(before) == text(after) {
		return nil
	}
	return []string{path}
}

func text(v any) string {
	data, _ := json.Marshal(v) // a tree of JSON
	return string(data)
}
