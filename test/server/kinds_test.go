package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	asYAML     = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asPartial  = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
)

// served is a kind of the server in one of its versions.
type served struct {
	metav1.APIResource
	schema.GroupVersion
}

func (s served) gvk() schema.GroupVersionKind { return s.GroupVersion.WithKind(s.Kind) }

// path returns the path of the collection, in the namespace of the samples for namespaced kinds.
func (s served) path() string {
	path := "/apis/" + s.GroupVersion.String()
	if s.GroupVersion.Group == "" {
		path = "/api/" + s.GroupVersion.Version
	}
	if s.Namespaced {
		path += "/namespaces/ns"
	}
	return path + "/" + s.Name
}

// kinds returns all kinds with stored objects, from discovery.
func (r *raw) kinds() (all []served) {
	r.Helper()
	groups := []string{"/api/v1"}
	var list metav1.APIGroupList
	if err := json.Unmarshal([]byte(r.must(200, "GET", "/apis", "")), &list); err != nil {
		r.Fatal(err)
	}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			groups = append(groups, "/apis/"+v.GroupVersion)
		}
	}
	for _, path := range groups {
		var resources metav1.APIResourceList
		if err := json.Unmarshal([]byte(r.must(200, "GET", path, "")), &resources); err != nil {
			r.Fatal(err)
		}
		gv, err := schema.ParseGroupVersion(resources.GroupVersion)
		if err != nil {
			r.Fatal(err)
		}
		for _, resource := range resources.APIResources {
			if !strings.Contains(resource.Name, "/") && slices.Contains(resource.Verbs, "create") && slices.Contains(resource.Verbs, "list") {
				all = append(all, served{resource, gv})
			}
		}
	}
	return all
}

// sample returns an object of a kind as a client writes it: that of the tests of package kinds, in
// the storage version.
func (s served) sample(t *testing.T) map[string]any {
	gr := schema.GroupResource{Group: s.GroupVersion.Group, Resource: s.Name}
	text, err := os.ReadFile("../../internal/kinds/kindtest/testdata/" + gr.String() + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := yaml.Unmarshal(text, &obj); err != nil {
		t.Fatal(err)
	}
	obj["apiVersion"], obj["kind"] = s.GroupVersion.String(), s.Kind
	return obj
}

func encode(t *testing.T, obj any) string {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decodeJSON(t *testing.T, text string) (obj map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return obj
}

// fromProtobuf decodes an object from protobuf, and returns its JSON.
func fromProtobuf(t *testing.T, text string) map[string]any {
	t.Helper()
	obj, gvk, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return decodeJSON(t, encode(t, obj))
}

func toProtobuf(t *testing.T, obj map[string]any) string {
	t.Helper()
	u := unstructured.Unstructured{Object: obj}
	typed, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(encode(t, obj)), typed); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(typed, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// TestEveryKind sends an object of each served kind, in each version, through all verbs and all
// encodings.
func TestEveryKind(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"ns"}}`)
	for _, s := range r.kinds() {
		if s.Name == "customresourcedefinitions" {
			continue // has its own tests
		}
		t.Run(s.Name+"."+s.GroupVersion.String(), func(t *testing.T) {
			r := &raw{t, r.server, r.client}
			r.live(t, s)
		})
	}
}

func (r *raw) live(t *testing.T, s served) {
	obj := s.sample(t)
	name := field(t, encode(t, obj), "metadata", "name").(string)
	path := s.path()
	at := path + "/" + name
	before := field(t, r.must(200, "GET", path, ""), "metadata", "resourceVersion").(string)

	text, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	r.must(201, "POST", path, string(text), "Content-Type", asYAML)
	r.read(t, s, name)

	r.wait("an update without a conflict", func() bool { // controllers may write the status meanwhile
		current := decodeJSON(t, r.must(200, "GET", at, ""))
		(&unstructured.Unstructured{Object: current}).SetLabels(map[string]string{"step": "put"})
		code, text := r.do("PUT", at, encode(t, current))
		if code != 200 && code != 409 {
			r.Fatalf("PUT %s: %d: %.500s", at, code, text)
		}
		return code == 200
	})
	for contentType, patch := range map[string]string{
		mergePatch:                               `{"metadata":{"annotations":{"merge":"x"}}}`,
		"application/json-patch+json":            `[{"op":"add","path":"/metadata/labels/json","value":"x"}]`,
		"application/strategic-merge-patch+json": `{"metadata":{"annotations":{"strategic":"x"}}}`,
		applyPatch:                               fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"annotations":{"apply":"x"}}}`, s.GroupVersion, s.Kind, name),
	} {
		r.must(200, "PATCH", at+"?fieldManager=test", patch, "Content-Type", contentType)
	}
	now := decodeJSON(t, r.must(200, "GET", at, ""))
	u := unstructured.Unstructured{Object: now}
	for _, label := range []string{"step", "json"} {
		if u.GetLabels()[label] == "" {
			t.Errorf("no label %s: %v", label, u.GetLabels())
		}
	}
	for _, annotation := range []string{"merge", "strategic", "apply"} {
		if u.GetAnnotations()[annotation] == "" {
			t.Errorf("no annotation %s: %v", annotation, u.GetAnnotations())
		}
	}
	r.must(409, "PUT", at, strings.Replace(encode(t, now), `"uid":"`, `"uid":"x`, 1)) // the uid of another object
	r.must(400, "POST", path+"?fieldValidation=Strict", strings.Replace(encode(t, obj), "{", `{"unheardOf":1,`, 1))

	r.must(200, "DELETE", at, "")
	r.wait("the object to go", func() bool { code, _ := r.do("GET", at, ""); return code == 404 })
	if scheme.Scheme.Recognizes(s.gvk()) {
		r.must(201, "POST", path, toProtobuf(t, s.sample(t)), "Content-Type", asProtobuf)
		r.must(200, "DELETE", at, "")
	}
	r.watched(t, s, name, before)
}

// read reads an object in every way and compares the results, unless the object was written in
// between.
func (r *raw) read(t *testing.T, s served, name string) {
	at := s.path() + "/" + name
	r.wait("all ways to read to show one object", func() bool {
		want := decodeJSON(t, r.must(200, "GET", at, ""))
		differs := r.differs(t, s, at, want)
		if differs != "" && reflect.DeepEqual(decodeJSON(t, r.must(200, "GET", at, "")), want) {
			t.Error(differs)
			return true
		}
		return differs == ""
	})
	for _, path := range []string{at, s.path() + "?fieldSelector=metadata.name=" + name} {
		var table metav1.Table
		if err := json.Unmarshal([]byte(r.must(200, "GET", path, "", "Accept", asTable)), &table); err != nil {
			t.Fatal(err)
		}
		if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) || table.Rows[0].Cells[0] != name && table.ColumnDefinitions[0].Name == "Name" {
			t.Errorf("table of %s: %+v", path, table)
		}
	}
	for _, accept := range []string{"application/json", asYAML, asProtobuf} {
		if list := r.must(200, "GET", s.path(), "", "Accept", accept); !strings.Contains(list, name) {
			t.Errorf("not in the list in %s: %.300s", accept, list)
		}
	}
}

// differs describes how an object differs from its JSON; "" if it does not.
func (r *raw) differs(t *testing.T, s served, at string, want map[string]any) string {
	if got := schema.FromAPIVersionAndKind(want["apiVersion"].(string), want["kind"].(string)); got != s.gvk() {
		return fmt.Sprintf("it is a %v", got)
	}
	var inYAML map[string]any
	if err := yaml.Unmarshal([]byte(r.must(200, "GET", at, "", "Accept", asYAML)), &inYAML); err != nil || !reflect.DeepEqual(inYAML, want) {
		return fmt.Sprintf("YAML shows %v, JSON %v (%v)", inYAML, want, err)
	}
	if inProtobuf := r.must(200, "GET", at, "", "Accept", asProtobuf); scheme.Scheme.Recognizes(s.gvk()) {
		if got, want := fromProtobuf(t, inProtobuf), fromProtobuf(t, toProtobuf(t, want)); !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("protobuf shows %v, JSON %v", got, want)
		}
	}
	partial := decodeJSON(t, r.must(200, "GET", at, "", "Accept", asPartial))
	if !reflect.DeepEqual(partial["metadata"], want["metadata"]) {
		return fmt.Sprintf("the metadata are %v, and alone %v", want["metadata"], partial["metadata"])
	}
	return ""
}

// watched reads the events of an object since its creation, until its deletion.
func (r *raw) watched(t *testing.T, s served, name, since string) {
	req, err := http.NewRequestWithContext(t.Context(), "GET",
		"http://kapok"+s.path()+"?watch=true&fieldSelector=metadata.name="+name+"&resourceVersion="+since, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var seen []string
	for events := json.NewDecoder(resp.Body); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := events.Decode(&event); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		u := unstructured.Unstructured{Object: event.Object}
		if event.Type == "" || u.GroupVersionKind() != s.gvk() || u.GetName() != name {
			t.Fatalf("event %v", event)
		}
		if seen = append(seen, event.Type); event.Type == "DELETED" {
			break
		}
	}
	if seen[0] != "ADDED" || len(seen) < 6 {
		t.Errorf("events %v", seen)
	}
}
