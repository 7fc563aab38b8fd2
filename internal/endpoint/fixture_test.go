package endpoint

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/json"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freeModel is the model of objects with any content.
type freeModel struct{}

func (freeModel) Fingerprint() uint64 { return 7 }

func (freeModel) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	var obj resource.Tree
	errs, err := json.UnmarshalStrict(data, &obj)
	if strict != nil {
		*strict = append(*strict, errs...)
	}
	return obj, err
}

func (freeModel) Normalise(obj resource.Tree, _ *[]error) (resource.Tree, error) { return obj, nil }

func (freeModel) Prune(obj resource.Tree) (resource.Tree, error) { return obj, nil }

func (freeModel) Validate(_ context.Context, _, _ resource.Tree, _ string) field.ErrorList {
	return nil
}

func (freeModel) FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error) {
	return func(schema.GroupVersionKind) *fields.Type { return fields.Deduced() }, nil
}
func (freeModel) PatchMeta() strategicpatch.LookupPatchMeta { return nil }
func (freeModel) New() runtime.Object                       { return nil }

// configMapModel is the model of a built-in kind.
type configMapModel struct{ freeModel }

func (configMapModel) Fingerprint() uint64 { return 8 }
func (configMapModel) New() runtime.Object { return &corev1.ConfigMap{} }

func (configMapModel) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	var typed corev1.ConfigMap
	errs, err := json.UnmarshalStrict(data, &typed)
	if strict != nil {
		*strict = append(*strict, errs...)
	}
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
}

func (configMapModel) PatchMeta() strategicpatch.LookupPatchMeta {
	meta, err := strategicpatch.NewPatchMetaFromStruct(&corev1.ConfigMap{})
	if err != nil {
		return nil
	}
	return meta
}

func widgets() *resource.Definition {
	v1 := &resource.Version{
		Name:  "v1",
		Model: freeModel{},
		Columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name"},
			{Name: "Size", Type: "integer", Description: "how large", Priority: 1},
		},
		Cells: func(obj resource.Tree, _ time.Time) []any {
			metadata, _ := obj["metadata"].(map[string]any)
			spec, _ := obj["spec"].(map[string]any)
			return []any{metadata["name"], spec["size"]}
		},
		Subresources: []resource.Subresource{{Name: "status", Prepare: func(obj, old resource.Tree) { obj["spec"] = old["spec"] }}},
		Scale:        &resource.Scale{Replicas: []string{"spec", "replicas"}, StatusReplicas: []string{"status", "replicas"}},
	}
	old := &resource.Version{Name: "v1beta1", Model: freeModel{}, Warning: "example.com/v1beta1 Widget is deprecated"}
	return &resource.Definition{
		Group: "example.com", Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList",
		ShortNames: []string{"wd"}, Categories: []string{"all"},
		Namespaced: true, Custom: true, Versions: []*resource.Version{v1, old}, Storage: v1,
	}
}

func configMaps() *resource.Definition {
	v1 := &resource.Version{Name: "v1", Model: configMapModel{}}
	return &resource.Definition{
		Plural: "configmaps", Singular: "configmap", Kind: "ConfigMap", ListKind: "ConfigMapList", ShortNames: []string{"cm"},
		Namespaced: true, Versions: []*resource.Version{v1}, Storage: v1,
		Strategy: resource.Strategy{CreateOnUpdate: true, UnconditionalUpdate: true},
	}
}

func namespaces() *resource.Definition {
	v1 := &resource.Version{Name: "v1", Model: freeModel{}, Subresources: []resource.Subresource{{Name: "finalize", UpdateOnly: true}, {Name: "status"}}}
	return &resource.Definition{
		Plural: "namespaces", Singular: "namespace", Kind: "Namespace", ListKind: "NamespaceList",
		Versions: []*resource.Version{v1}, Storage: v1,
	}
}

// server is a Handler over a store in memory. Its requests are those of an administrator.
type server struct {
	testing.TB
	*Handler
}

const token = "secret"

func newServer(t testing.TB, edit ...func(*Options)) *server {
	t.Helper()
	j := memory.New()
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Store:         resource.NewStore(st, resource.NewRegistry(namespaces(), configMaps(), widgets())),
		Authenticator: authn.NewAuthenticator(nil, authn.AdminToken(token)),
		Logger:        slog.New(slog.NewTextHandler(io.Discard, nil)),
		Version:       version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+kapok", EmulationMajor: "1", EmulationMinor: "37"},
		Address:       "127.0.0.1:6443",
	}
	for _, e := range edit {
		e(&opts)
	}
	s := &server{TB: t, Handler: New(opts)}
	t.Cleanup(func() {
		s.Close()
		j.Close()
	})
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`)
	return s
}

// do sends a request; headers are pairs of name and value.
func (s *server) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	var reader io.Reader = http.NoBody
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(s.Context(), method, path, reader)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("User-Agent", "test/1.0")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s *server) must(code int, method, path, body string, headers ...string) string {
	s.Helper()
	w := s.do(method, path, body, headers...)
	if w.Code != code {
		s.Fatalf("%s %s: %d, want %d: %s", method, path, w.Code, code, w.Body)
	}
	return w.Body.String()
}

const (
	widgetPath    = "/apis/example.com/v1/namespaces/default/widgets"
	configMapPath = "/api/v1/namespaces/default/configmaps"
)

func widget(name, rest string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"}` + rest + `}`
}

func configMap(name, rest string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}` + rest + `}`
}
