package kapoktest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A scrubber removes values from objects that differ in each run.
type scrubber struct {
	words *strings.Replacer
	begin time.Time // of the server; zero if times are to stay
	now   time.Time
}

// scrubber returns the scrubber of an object. all are the objects whose uids and names it may
// mention.
func (e *Env) scrubber(all []unstructured.Unstructured) (func(*unstructured.Unstructured), error) {
	namespace := &corev1.Namespace{}
	if err := e.client.Get(e.ctx, types.NamespacedName{Name: metav1.NamespaceDefault}, namespace); err != nil {
		return nil, err
	}
	s := &scrubber{words: known(all), begin: namespace.CreationTimestamp.Time, now: time.Now()}
	if s.begin.UTC().Year() == 2000 { // in a bubble, whose clock begins then
		s.begin = time.Time{}
	}
	return s.scrub, nil
}

// known replaces generated names and uids.
func known(all []unstructured.Unstructured) *strings.Replacer {
	generated := slices.DeleteFunc(slices.Clone(all), func(u unstructured.Unstructured) bool {
		return u.GetGenerateName() == "" || !strings.HasPrefix(u.GetName(), u.GetGenerateName())
	})
	slices.SortFunc(generated, func(a, b unstructured.Unstructured) int {
		return cmp.Or(len(a.GetName())-len(b.GetName()), strings.Compare(a.GetName(), b.GetName()))
	})
	var pairs []string // the longest first
	for _, u := range generated {
		// The prefix of the name may be a generated name itself.
		word := strings.NewReplacer(pairs...).Replace(u.GetGenerateName()) + "<generated>"
		pairs = append([]string{u.GetName(), word}, pairs...)
	}
	names := strings.NewReplacer(pairs...)
	const tokens = "kube-api-access-" // the volumes with which service accounts are admitted into pods
	for _, u := range all {
		volumes, _, _ := unstructured.NestedSlice(u.Object, "spec", "volumes")
		for _, v := range volumes {
			volume, _ := v.(map[string]any)
			if name, _ := volume["name"].(string); u.GetKind() == "Pod" && len(name) > len(tokens) && strings.HasPrefix(name, tokens) {
				pairs = append(pairs, name, tokens+"<generated>")
			}
		}
	}
	seen := map[types.UID]bool{"": true}
	add := func(uid types.UID, kind, namespace, name string) {
		if !seen[uid] {
			seen[uid] = true
			pairs = append(pairs, string(uid), "<uid of "+kind+" "+qualified(namespace, names.Replace(name))+">")
		}
	}
	for _, u := range all {
		add(u.GetUID(), u.GetKind(), u.GetNamespace(), u.GetName())
	}
	for _, u := range all {
		for _, owner := range u.GetOwnerReferences() {
			add(owner.UID, owner.Kind, "", owner.Name)
		}
	}
	return strings.NewReplacer(pairs...)
}

func (s *scrubber) scrub(u *unstructured.Unstructured) {
	if u.GetKind() == "Service" && u.GetAPIVersion() == "v1" {
		scrubService(u)
	}
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	owners, _, _ := unstructured.NestedSlice(u.Object, "metadata", "ownerReferences")
	for _, o := range owners {
		if owner, ok := o.(map[string]any); ok {
			delete(owner, "uid")
		}
	}
	if len(owners) > 0 {
		_ = unstructured.SetNestedSlice(u.Object, owners, "metadata", "ownerReferences") // it was one
	}
	for key, value := range u.Object {
		u.Object[key] = s.value(value, key == "status")
	}
}

// value returns a scrubbed value. inStatus means that it is part of a status.
func (s *scrubber) value(v any, inStatus bool) any {
	switch v := v.(type) {
	case map[string]any:
		return s.entries(v, inStatus)
	case []any:
		for i := range v {
			v[i] = s.value(v[i], inStatus)
		}
	case string:
		at, err := time.Parse(time.RFC3339, v)
		switch {
		case err != nil:
			return s.words.Replace(v)
		case !s.begin.IsZero() && (inStatus || !at.Before(s.begin) && !at.After(s.now)):
			return "<time>"
		}
	}
	return v
}

// entries returns a scrubbed map. Keys that become equal are numbered in the order of their values,
// because the order of the keys differs in each run.
func (s *scrubber) entries(m map[string]any, inStatus bool) map[string]any {
	byWord := make(map[string][]any, len(m))
	for key, value := range m {
		word := s.words.Replace(key)
		byWord[word] = append(byWord[word], s.value(value, inStatus))
	}
	out := make(map[string]any, len(m))
	for _, word := range slices.Sorted(maps.Keys(byWord)) {
		values := byWord[word]
		slices.SortFunc(values, func(a, b any) int { // fmt writes maps in the order of their keys
			return strings.Compare(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b))
		})
		for _, value := range values {
			key := word
			_, taken := out[key]
			for n := 2; taken; n++ {
				key = fmt.Sprintf("%s %d", word, n)
				_, taken = out[key]
			}
			out[key] = value
		}
	}
	return out
}

// scrubService removes addresses and node ports that the server has allocated, which therefore
// belong to no field manager.
func scrubService(u *unstructured.Unstructured) {
	const chosen = "<chosen>"
	asked := func(field string) bool {
		return slices.ContainsFunc(u.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
			return m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+field+`"`))
		})
	}
	spec, _ := u.Object["spec"].(map[string]any)
	if ip, ok := spec["clusterIP"].(string); ok && ip != "" && ip != corev1.ClusterIPNone && !asked("clusterIP") {
		spec["clusterIP"] = chosen
		if ips, ok := spec["clusterIPs"].([]any); ok && !asked("clusterIPs") {
			for i := range ips {
				ips[i] = chosen
			}
		}
	}
	if spec["healthCheckNodePort"] != nil && !asked("healthCheckNodePort") {
		spec["healthCheckNodePort"] = chosen
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port, ok := p.(map[string]any); ok && port["nodePort"] != nil && !asked("nodePort") {
			port["nodePort"] = chosen
		}
	}
}
