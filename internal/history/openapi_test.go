package history

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestOpenAPI compares the properties of the document with the fields of the types.
func TestOpenAPI(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(openAPI, &document); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]any{"Revision": Revision{}, "ClusterRevision": Revision{}, "Reference": Reference{}, "RevisionList": List{}, "ClusterRevisionList": List{}} {
		s, ok := document.Components.Schemas["dev.kapok.history.v1."+name]
		if !ok {
			t.Errorf("no schema of %s", name)
			continue
		}
		all, required := fieldsOf(of)
		if got := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(got, all) {
			t.Errorf("%s has the properties %q, want %q", name, got, all)
		}
		slices.Sort(s.Required)
		if !slices.Equal(s.Required, required) {
			t.Errorf("%s requires %q, want %q", name, s.Required, required)
		}
	}
}

// fieldsOf returns the names of the fields in JSON, and of those that are never absent.
func fieldsOf(of any) (all, required []string) {
	all = []string{"apiVersion", "kind"}
	if _, ok := of.(Reference); ok {
		all = nil
	}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || len(f.Index) > 1 {
			continue
		}
		all = append(all, name)
		if option == "" {
			required = append(required, name)
		}
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}
