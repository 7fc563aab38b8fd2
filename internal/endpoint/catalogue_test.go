package endpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
)

// thing is a custom kind of a group; made counts how often its schema is read.
func thing(group, plural string, made map[string]int) *resource.Definition {
	v := &resource.Version{Name: "v1", Published: &resource.Published{
		Fingerprint: group + plural,
		Schema: func() ([]byte, error) {
			made[group+"/"+plural]++
			return []byte(`{"type":"object"}`), nil
		},
	}}
	return &resource.Definition{
		Group: group, Plural: plural, Kind: "Kind" + plural, ListKind: "Kind" + plural + "List", Namespaced: true, Custom: true,
		Versions: []*resource.Version{v}, Storage: v,
	}
}

// TestOnlyWhatChanges checks which documents are made again: discovery by group, OpenAPI by group
// and version.
func TestOnlyWhatChanges(t *testing.T) {
	made := map[string]int{}
	registry := resource.NewRegistry(thing("a.example.com", "ones", made), thing("b.example.com", "twos", made), thing("b.example.com", "threes", made))
	first := newCatalogue(registry.Load(), nil, nil)
	documents := OpenAPI(registry, nil, "v1.37.0")
	ask := func(path string) *httptest.ResponseRecorder {
		t.Helper()
		w := httptest.NewRecorder()
		documents.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		return w
	}
	wanted := func(step string, want map[string]int) {
		t.Helper()
		if !maps.Equal(made, want) {
			t.Errorf("%s: schemas read %v, want %v", step, made, want)
		}
	}
	ask("/openapi/v3")
	wanted("the list of documents", map[string]int{})
	readAll := func() (tags []string) {
		for _, group := range []string{"a", "b"} {
			tags = append(tags, ask("/openapi/v3/apis/"+group+".example.com/v1").Header().Get("Etag"))
		}
		return tags
	}
	before := readAll()
	readAll()
	wanted("each read twice", map[string]int{"a.example.com/ones": 1, "b.example.com/twos": 1, "b.example.com/threes": 1})

	registry.Put(thing("b.example.com", "fours", made))
	second := newCatalogue(registry.Load(), nil, first)
	if first.byName["a.example.com"] != second.byName["a.example.com"] || first.byName["b.example.com"] == second.byName["b.example.com"] {
		t.Error("want only the changed group rebuilt")
	}
	after := readAll()
	wanted("after a change in b", map[string]int{"a.example.com/ones": 1, "b.example.com/twos": 2, "b.example.com/threes": 2, "b.example.com/fours": 1})
	if before[0] != after[0] || before[1] == after[1] {
		t.Errorf("tags %v, then %v", before, after)
	}

	d := registry.Load().Resource(thing("b.example.com", "fours", made).GroupResource())
	registry.Remove(d.GroupResource())
	if third := newCatalogue(registry.Load(), nil, second); len(third.byName["b.example.com"].definitions) != 2 ||
		third.byName["a.example.com"] != second.byName["a.example.com"] {
		t.Error("a kind that is gone")
	}
	if tags := readAll(); !slices.Equal(tags, before) {
		t.Errorf("tags %v where all is as it was: %v", tags, before)
	}
}

// TestAggregatedIsWhole compares the document that is assembled from parts with one that is made as
// a whole.
func TestAggregatedIsWhole(t *testing.T) {
	made := map[string]int{}
	var all []*resource.Definition
	for i := range 20 {
		all = append(all, thing(fmt.Sprintf("g%d.example.com", i%7), fmt.Sprintf("r%d", i), made))
	}
	c := newCatalogue(resource.NewRegistry(all...).Load(), nil, nil)
	want := apidiscoveryv2.APIGroupDiscoveryList{}
	want.Kind, want.APIVersion = "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"
	for _, g := range c.groups {
		want.Items = append(want.Items, g.aggregated())
	}
	whole, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	m := media{encoding: asJSON}
	m.as.Group, m.as.Version, m.as.Kind = "apidiscovery.k8s.io", "v2", want.Kind
	doc, err := c.aggregated(false, m)
	if err != nil || string(doc.bytes) != string(whole) {
		t.Errorf("%v\n got %s\nwant %s", err, doc.bytes, whole)
	}
	m.encoding = asProtobuf
	inProtobuf, err := c.aggregated(false, m)
	if err != nil || inProtobuf.etag != doc.etag {
		t.Errorf("in protobuf: %v, tag %s, want %s", err, inProtobuf.etag, doc.etag)
	}
	got := decodeProtobuf[apidiscoveryv2.APIGroupDiscoveryList](t, string(inProtobuf.bytes), "apidiscovery.k8s.io/v2 APIGroupDiscoveryList")
	if len(got.Items) != len(want.Items) || got.Items[3].Name != want.Items[3].Name || len(got.Items[3].Versions[0].Resources) != len(want.Items[3].Versions[0].Resources) {
		t.Errorf("in protobuf: %v", got)
	}
}

// BenchmarkCatalogue measures discovery after one of many kinds has changed.
func BenchmarkCatalogue(b *testing.B) {
	for _, many := range []int{200, 5000} {
		b.Run(fmt.Sprintf("kinds=%d", many), func(b *testing.B) {
			var all []*resource.Definition
			for i := range many {
				all = append(all, thing(fmt.Sprintf("g%d.example.com", i/50), fmt.Sprintf("r%d", i), nil))
			}
			registry := resource.NewRegistry(all...)
			m := media{encoding: asJSON}
			m.as.Group, m.as.Version, m.as.Kind = "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"
			var c *catalogue
			b.ReportAllocs()
			for b.Loop() {
				registry.Put(thing("g0.example.com", "r0", nil))
				c = newCatalogue(registry.Load(), nil, c)
				if _, err := c.aggregated(false, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
