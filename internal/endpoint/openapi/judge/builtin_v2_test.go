package judge

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/endpoint/openapi"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// resolve replaces references to shared parameters by the parameters, because their names are
// irrelevant.
func resolve(document object) object {
	shared, _ := document["parameters"].(object)
	one := func(holder any) {
		o, ok := holder.(object)
		if !ok {
			return
		}
		list, _ := o["parameters"].([]any)
		for i, p := range list {
			if ref, ok := p.(object)["$ref"].(string); ok {
				list[i] = shared[strings.TrimPrefix(ref, "#/parameters/")]
			}
		}
	}
	for _, item := range document["paths"].(object) {
		one(item)
		for _, operation := range item.(object) {
			one(operation)
		}
	}
	delete(document, "parameters")
	return document
}

func finishedSnapshot(t *testing.T) *openapi.Snapshot {
	snapshot := &openapi.Snapshot{Version: "unversioned"}
	for name, document := range recorded(t, "v3/*.json") {
		if finished.MatchString(name) {
			snapshot.Resources = append(snapshot.Resources, resources(name, document)...)
		}
	}
	return snapshot
}

// notServed are the paths of versions in development and of what is not part of the API.
var notServed = regexp.MustCompile(`v\d+(alpha|beta)\d+|^/logs/|^/\.well-known/|^/openid/|^/apis/(internal.apiserver|lifecycle).k8s.io/`)

func TestBuiltinV2(t *testing.T) {
	snapshot := finishedSnapshot(t)
	handler := openapi.New(func() *openapi.Snapshot { return snapshot })
	raw := get(t, handler, "/openapi/v2")
	got := resolve(decode(t, raw))
	want := resolve(recorded(t, "swagger.json")["swagger.json"])
	for _, key := range []string{"paths", "definitions"} {
		members := want[key].(object)
		for name := range members {
			if notServed.MatchString(name) && got[key].(object)[name] == nil {
				delete(members, name)
			}
		}
	}
	report(t, differences("", normalise(got), normalise(want)))
}

// TestProtobuf checks that the message, which is assembled from several, is the same document.
func TestProtobuf(t *testing.T) {
	snapshot := finishedSnapshot(t)
	snapshot.Resources = append(snapshot.Resources, custom(t)...)
	handler := openapi.New(func() *openapi.Snapshot { return snapshot })
	got := new(openapi_v2.Document)
	if err := proto.Unmarshal(getAs(t, handler, "/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"), got); err != nil {
		t.Fatal(err)
	}
	want, err := openapi_v2.ParseDocument(get(t, handler, "/openapi/v2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []*openapi_v2.Document{got, want} {
		slices.SortFunc(document.Paths.Path, func(a, b *openapi_v2.NamedPathItem) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(document.Definitions.AdditionalProperties, func(a, b *openapi_v2.NamedSchema) int { return strings.Compare(a.Name, b.Name) })
	}
	if !proto.Equal(got, want) {
		t.Errorf("the message is another document than the JSON: %d and %d bytes", proto.Size(got), proto.Size(want))
	}
	if _, err := new(spec.Swagger).FromGnostic(got); err != nil {
		t.Error(err)
	}
}
