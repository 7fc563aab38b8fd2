package openapi

import (
	"encoding/json"
	"sort"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestEveryDefinitionDecodes(t *testing.T) {
	names := []string{}
	for name, raw := range Builtin().All() {
		names = append(names, name)
		s, err := decode(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, ok := Builtin().Get(name); !ok || got.Description != s.Description {
			t.Errorf("Get(%s) finds %v, another definition", name, ok)
		}
		for other := range references(raw) {
			if _, ok := Builtin().Raw(other); !ok {
				t.Errorf("%s refers to %s, which is missing", name, other)
			}
		}
	}
	if !sort.StringsAreSorted(names) {
		t.Error("the definitions are not sorted")
	}
	if len(names) < 600 {
		t.Errorf("only %d definitions", len(names))
	}
}

func TestEveryKindHasItsName(t *testing.T) {
	kinds := 0
	for name, raw := range Builtin().All() {
		var definition struct {
			Kinds []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		if err := json.Unmarshal([]byte(raw), &definition); err != nil {
			t.Fatal(err)
		}
		for _, kind := range definition.Kinds {
			kinds++
			if got := Builtin().NameOf(schema.GroupVersionKind(kind)); got != name {
				t.Errorf("NameOf(%v) = %q, want %q", kind, got, name)
			}
		}
	}
	if kinds == 0 {
		t.Error("no definition names its kinds")
	}
}

func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"", "a", "zzz", "io.k8s.api.core.v1.Po", "io.k8s.api.core.v1.Pod\t"} {
		if s, ok := Builtin().Get(name); ok || s != nil {
			t.Errorf("Get(%q) found %v", name, s)
		}
		if closure := Builtin().Closure(name); closure != nil {
			t.Errorf("Closure(%q) found %d definitions", name, len(closure))
		}
	}
	if name := Builtin().NameOf(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"}); name != "" {
		t.Errorf("a foreign kind has the name %q", name)
	}
	if _, ok := parse("").Raw("a"); ok {
		t.Error("found a definition where there is none")
	}
}

func TestWhatKubernetesPublishes(t *testing.T) {
	container, _ := Builtin().Get("io.k8s.api.core.v1.Container")
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"required", strings.Join(container.Required, ","), "name"},
		{"list type of ports", container.Properties["ports"].Extensions["x-kubernetes-list-type"], "map"},
		{"merge key of ports", container.Properties["ports"].Extensions["x-kubernetes-patch-merge-key"], "containerPort"},
		{"list type of args", container.Properties["args"].Extensions["x-kubernetes-list-type"], "atomic"},
		{"pull policies", len(container.Properties["imagePullPolicy"].Enum), 3},
		{"default of name", container.Properties["name"].Default, ""},
		{"reference of lifecycle", container.Properties["lifecycle"].AllOf[0].Ref.String(), RefPrefix + "io.k8s.api.core.v1.Lifecycle"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	port, _ := Builtin().Get("io.k8s.api.core.v1.ContainerPort")
	if got := port.Properties["protocol"].Default; got != "TCP" {
		t.Errorf("default protocol is %v", got)
	}
	either, _ := Builtin().Get("io.k8s.apimachinery.pkg.util.intstr.IntOrString")
	if either.Format != "int-or-string" || len(either.OneOf) != 2 {
		t.Errorf("IntOrString is %v", either)
	}
	if raw, ok := Builtin().RawV2("io.k8s.apimachinery.pkg.util.intstr.IntOrString"); !ok || !strings.Contains(raw, `"type":"string"`) {
		t.Errorf("IntOrString in OpenAPI v2 is %q", raw)
	}
}
