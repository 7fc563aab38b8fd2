package stores

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestStores opens the stores of earlier versions, and restores their snapshots.
func TestStores(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join("testdata", "*", "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("there are no archives: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.ToSlash(name), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			a := unpack(t, name)
			want := a.objects(t)
			t.Run("store", func(t *testing.T) { a.check(t, a.data(), want) })
			t.Run("snapshot", func(t *testing.T) { a.check(t, a.restore(t), want) })
		})
	}
}

// writes are accepted by every store: one of a new object, and of old ones with old field managers,
// finalizers and stored versions.
var writes = []struct{ method, path, mediaType, body string }{
	{http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", `{"metadata":{"name":"written"}}`},
	{http.MethodPatch, "/apis/example.com/v1/namespaces/shop/widgets/old", "application/merge-patch+json", `{"spec":{"color":"green"}}`},
	{http.MethodPatch, "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=test", "application/apply-patch+yaml",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"paused":true}}`},
	{http.MethodPatch, "/apis/example.com/v1/namespaces/shop/widgets/new", "application/merge-patch+json", `{"metadata":{"finalizers":null}}`},
	{http.MethodDelete, "/api/v1/namespaces/shop/secrets/opaque", "", ""},
}

// check opens a data directory, compares all objects, writes, and opens it again.
func (a archive) check(t *testing.T, dir string, want objects) {
	s := a.open(t, dir)
	compare(t, want, s.objects(t, want))
	s.examine(t)
	for _, w := range writes {
		s.do(t, w.method, w.path, w.mediaType, w.body)
	}
	want = s.objects(t, want)
	s.stop(t)

	s = a.open(t, dir)
	compare(t, want, s.objects(t, want))
	s.examine(t)
	s.stop(t)
}

// objects are the items of lists, by their paths.
type objects map[string][]any

// compare reports the objects that differ.
func compare(t *testing.T, want, got objects) {
	t.Helper()
	for list, items := range want {
		for _, d := range differences(items, got[list]) {
			t.Errorf("%s: %s", list, d)
		}
	}
}

// differences returns a text for each object that is missing, differs, or is new.
func differences(want, got []any) (all []string) {
	before, after := byName(want), byName(got)
	for name, o := range before {
		if !reflect.DeepEqual(after[name], o) {
			all = append(all, fmt.Sprintf("%s is\n%s, want\n%s", name, text(after[name]), text(o)))
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			all = append(all, name+" did not exist before")
		}
	}
	return all
}

// byName returns objects by namespace and name.
func byName(items []any) map[string]any {
	all := map[string]any{}
	for _, o := range items {
		metadata, _ := o.(map[string]any)["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		name, _ := metadata["name"].(string)
		all[namespace+"/"+name] = o
	}
	return all
}

func text(o any) string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestDifferences: a missing, a changed and a further object are reported.
func TestDifferences(t *testing.T) {
	object := func(name, uid string) any {
		return map[string]any{"metadata": map[string]any{"name": name, "uid": uid}}
	}
	for name, test := range map[string]struct {
		got  []any
		fine bool
	}{
		"equal":   {[]any{object("b", "2"), object("a", "1")}, true},
		"missing": {[]any{object("a", "1")}, false},
		"changed": {[]any{object("a", "1"), object("b", "3")}, false},
		"further": {[]any{object("a", "1"), object("b", "2"), object("c", "3")}, false},
	} {
		want := []any{object("a", "1"), object("b", "2")}
		if fine := len(differences(want, test.got)) == 0; fine != test.fine {
			t.Errorf("%s: %t", name, fine)
		}
	}
}
