package kinds

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// A loss removes what belongs to features that are off from an object that is written. old is nil
// on create.
type loss struct {
	only part
	drop func(obj, old resource.Tree)
}

// applies reports whether the loss concerns writes to a part of an object: to the main resource, or
// to a subresource.
func (l *loss) applies(to part) bool { return l.only == "" || l.only == to }

// lossOf returns the loss of the fields of a feature, below a path of the object; nil for its root.
func lossOf(f feature, below []string) loss {
	paths := make([][]string, len(f.fields))
	for i, field := range f.fields {
		paths[i] = append(below[:len(below):len(below)], strings.Split(field, ".")...)
	}
	return loss{only: f.only, drop: func(obj, old resource.Tree) {
		for _, path := range paths {
			if hasAny(old, path) {
				return
			}
		}
		for _, path := range paths {
			visit(obj, path, func(parent resource.Tree, key string) { delete(parent, key) })
		}
	}}
}

// hasAny reports whether an object has a value at a path that is not empty.
func hasAny(obj resource.Tree, path []string) bool {
	found := false
	visit(obj, path, func(parent resource.Tree, key string) {
		switch value := parent[key].(type) {
		case nil:
		case resource.Tree:
			found = true // an object that is there counts, even if all of its fields are empty
		case []any:
			found = found || len(value) > 0
		default:
			found = true
		}
	})
	return found
}

// visit calls do with each map that the path leads to, and the last key of the path.
func visit(at resource.Tree, path []string, do func(parent resource.Tree, key string)) {
	if len(path) == 1 {
		do(at, path[0])
		return
	}
	if key, list := strings.CutSuffix(path[0], "[]"); list {
		for _, item := range kind.Items(at, key) {
			visit(item, path[1:], do)
		}
	} else if key, values := strings.CutSuffix(path[0], "{}"); values {
		all, _ := at[key].(resource.Tree)
		for _, value := range all {
			if value, ok := value.(resource.Tree); ok {
				visit(value, path[1:], do)
			}
		}
	} else if next, ok := at[key].(resource.Tree); ok {
		visit(next, path[1:], do)
	}
}

// containerLists are the lists of containers of a pod spec.
func containerLists() []string {
	return []string{"initContainers", "containers", "ephemeralContainers"}
}

// dropRestartRules removes the restart policies of containers, except for that of sidecars, unless
// the old pod spec has one.
func dropRestartRules(spec, old resource.Tree) {
	if hasRestartRules(old) {
		return
	}
	for _, list := range containerLists() {
		for _, c := range kind.Items(spec, list) {
			if isRestartRule(list, c["restartPolicy"]) {
				delete(c, "restartPolicy")
			}
			delete(c, "restartPolicyRules")
		}
	}
}

func hasRestartRules(spec resource.Tree) bool {
	for _, list := range containerLists() {
		for _, c := range kind.Items(spec, list) {
			if isRestartRule(list, c["restartPolicy"]) || len(kind.Items(c, "restartPolicyRules")) > 0 {
				return true
			}
		}
	}
	return false
}

// isRestartRule reports whether a restart policy of a container is one of the feature: init
// containers that always restart, which are sidecars, belong to an older one.
func isRestartRule(list string, policy any) bool {
	return policy != nil && (list != "initContainers" || policy != string(corev1.ContainerRestartPolicyAlways))
}

// dropImageVolumes removes volumes with images, and their mounts, unless the old pod spec has one.
func dropImageVolumes(spec, old resource.Tree) {
	if hasAny(old, []string{"volumes[]", "image"}) {
		return
	}
	dropped := map[any]bool{}
	keepItems(spec, "volumes", func(v resource.Tree) bool {
		if v["image"] == nil {
			return true
		}
		dropped[v["name"]] = true
		return false
	})
	if len(dropped) == 0 {
		return
	}
	for _, list := range containerLists() {
		for _, c := range kind.Items(spec, list) {
			keepItems(c, "volumeMounts", func(mount resource.Tree) bool { return !dropped[mount["name"]] })
		}
	}
}

// keepItems removes the items of a list that keep rejects, and a list that becomes empty.
func keepItems(obj resource.Tree, key string, keep func(item resource.Tree) bool) {
	var kept []any
	for _, item := range kind.Items(obj, key) {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 {
		delete(obj, key)
	} else {
		obj[key] = kept
	}
}
