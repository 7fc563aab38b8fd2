package kinds_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestDefinitions(t *testing.T) {
	for _, c := range []struct {
		plural, group, kind, shorts, categories, subresources, scope string
	}{
		{"namespaces", "", "Namespace", "ns", "", "status finalize", "cluster"},
		{"configmaps", "", "ConfigMap", "cm", "", "", "namespace"},
		{"secrets", "", "Secret", "", "", "", "namespace"},
		{"serviceaccounts", "", "ServiceAccount", "sa", "", "token", "namespace"},
		{"pods", "", "Pod", "po", "all", "status binding eviction ephemeralcontainers resize", "namespace"},
		{"events", "", "Event", "ev", "", "", "namespace"},
		{"deployments", "apps", "Deployment", "deploy", "all", "status", "namespace"},
		{"jobs", "batch", "Job", "", "all", "status", "namespace"},
		{"leases", "coordination.k8s.io", "Lease", "", "", "", "namespace"},
	} {
		d := kindtest.Definition(t, c.plural)
		v := kindtest.Version(d, "v1")
		var subresources []string
		for _, s := range v.Subresources {
			subresources = append(subresources, s.Name)
		}
		scope := "cluster"
		if d.Namespaced {
			scope = "namespace"
		}
		got := []string{d.Group, d.Kind, strings.Join(d.ShortNames, " "), strings.Join(d.Categories, " "), strings.Join(subresources, " "), scope, d.Singular, d.ListKind}
		want := []string{c.group, c.kind, c.shorts, c.categories, c.subresources, c.scope, strings.ToLower(c.kind), c.kind + "List"}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: got %q, want %q", c.plural, got, want)
				break
			}
		}
	}
}

// TestDefinitionsFitTogether checks invariants of every definition.
func TestDefinitionsFitTogether(t *testing.T) {
	fingerprints := map[uint64]string{}
	for _, d := range kinds.Definitions() {
		v := d.Storage
		if d.Action != nil {
			continue
		}
		if d.Version(d.GroupVersion(v)) != v {
			t.Errorf("%s: the storage version is not served", d.Plural)
		}
		gvk := d.GroupVersionKind(v)
		obj := v.Model.New()
		if obj == nil || obj.GetObjectKind() == nil {
			t.Errorf("%s: no Go object", d.Plural)
		}
		fingerprint := v.Model.Fingerprint()
		if other, ok := fingerprints[fingerprint]; ok || fingerprint == 0 {
			t.Errorf("%s: fingerprint %d is taken by %q", d.Plural, fingerprint, other)
		}
		fingerprints[fingerprint] = d.Plural
		if v.Model.PatchMeta() == nil {
			t.Errorf("%s: no strategic merge patch", d.Plural)
		}
		if _, err := v.Model.FieldTypes(); err != nil {
			t.Errorf("%s: %v", d.Plural, err)
		}
		empty, err := v.Model.Decode([]byte(`{"metadata":{"name":"a"}}`), nil)
		if err != nil {
			t.Fatalf("%s: %v", d.Plural, err)
		}
		if got := schema.FromAPIVersionAndKind(empty["apiVersion"].(string), empty["kind"].(string)); got != gvk {
			t.Errorf("%s: an object without a kind becomes a %v", d.Plural, got)
		}
		if v.Cells != nil {
			if cells := v.Cells(empty, kindtest.Now); len(cells) != len(v.Columns) {
				t.Errorf("%s: %d cells for %d columns", d.Plural, len(cells), len(v.Columns))
			}
		}
		for _, c := range v.Columns {
			if c.Name == "" || c.Type == "" || c.Description == "" && d.Plural != "runtimeclasses" { // Kubernetes' column of handlers has no description
				t.Errorf("%s: column %+v is not complete", d.Plural, c)
			}
		}
		if v.Fields != nil {
			values := v.Fields(empty)
			for _, label := range v.Selectable {
				if _, ok := values[label]; !ok {
					t.Errorf("%s: no value of %s", d.Plural, label)
				}
			}
		}
		if old, err := v.Model.Decode([]byte(`{"metadata":{"name":"a"}}`), nil); err != nil {
			t.Fatal(err)
		} else {
			d.Strategy.PrepareCreate(empty)
			d.Strategy.PrepareUpdate(empty, old)
			v.Model.Validate(t.Context(), empty, old, "") // must not panic for an empty object
			for _, s := range v.Subresources {
				if s.Action != nil {
					continue
				}
				s.Prepare(empty, old)
				v.Model.Validate(t.Context(), empty, old, s.Name)
			}
		}
	}
}

func TestDefinitionsAreTheCallersOwn(t *testing.T) {
	one, two := kinds.Definitions(), kinds.Definitions()
	registry := resource.NewRegistry(one...)
	registry.Remove(one[0].GroupResource())
	if other := resource.NewRegistry(two...); other.Load().Resource(two[0].GroupResource()) != two[0] || one[0] == two[0] {
		t.Error("two servers share a definition")
	}
	if one[0].Storage != two[0].Storage {
		t.Error("two servers do not share a version")
	}
}
