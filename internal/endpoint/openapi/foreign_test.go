package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The description of another server is included as far as it is about its group version, and no
// definition loses its name to it.
func TestForeignV2(t *testing.T) {
	ours := map[string]json.RawMessage{
		"Same":    json.RawMessage(`{"type":"object","x-kubernetes-group-version-kind":[{"kind":"A"}],"properties":{"a":{"$ref":"#/definitions/Deeper"}}}`),
		"Deeper":  json.RawMessage(`{"type":"string"}`),
		"Changed": json.RawMessage(`{"type":"object"}`),
		"Upon":    json.RawMessage(`{"properties":{"a":{"$ref":"#/definitions/Changed"}}}`),
		"Taken":   json.RawMessage(`{"type":"object"}`), "Taken_v2": json.RawMessage(`{"type":"boolean"}`),
	}
	document := `{"paths":{
		"/apis/a.io/v1/":{"get":{"parameters":[{"$ref":"#/parameters/p"}],"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/New"}}}}},
		"/apis/a.io/v1/upon":{"get":{"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/Upon"}}}}},
		"/apis/a.io/v1/taken":{"get":{"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/Taken"}}}}},
		"/apis/a.io/v10/x":{}, "/apis/apps/v1/deployments":{"get":{}}, "/version/":{}},
	"parameters":{"p":{"in":"query","name":"p","type":"string"}},
	"definitions":{
		"Same":{"type":"object","properties":{"a":{"$ref":"#/definitions/Deeper"}}},"Deeper":{"type":"string"},
		"Changed":{"type":"number"},"Upon":{"properties":{"a":{"$ref":"#/definitions/Changed"}}},"Taken":{"type":"array"},
		"New":{"properties":{"a":{"$ref":"#/definitions/Same"},"b":{"$ref":"#/definitions/Upon"},"c":{"$ref":"#/definitions/New"}}},
		"Unused":{"type":"object"}}}`
	f := foreignV2([]Foreign{{Name: "apis/none.io/v1"}, {Name: "apis/a.io/v1", V2: []byte(document)}}, ours)
	for what, all := range map[string][2]map[string]json.RawMessage{
		"paths": {f.paths, {
			"/apis/a.io/v1/":      json.RawMessage(`{"get":{"parameters":[{"in":"query","name":"p","type":"string"}],"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/New"}}}}}`),
			"/apis/a.io/v1/upon":  json.RawMessage(`{"get":{"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/Upon_v2"}}}}}`),
			"/apis/a.io/v1/taken": json.RawMessage(`{"get":{"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/Taken_v3"}}}}}`),
		}},
		"definitions": {f.schemas, {
			"New":        json.RawMessage(`{"properties":{"a":{"$ref":"#/definitions/Same"},"b":{"$ref":"#/definitions/Upon_v2"},"c":{"$ref":"#/definitions/New"}}}`),
			"Upon_v2":    json.RawMessage(`{"properties":{"a":{"$ref":"#/definitions/Changed_v2"}}}`),
			"Changed_v2": json.RawMessage(`{"type":"number"}`),
			"Taken_v3":   json.RawMessage(`{"type":"array"}`),
		}},
	} {
		got, want := all[0], all[1]
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if strings.TrimSpace(string(got[name])) != string(want[name]) {
				t.Errorf("%s, %s:\ngot  %s\nwant %s", what, name, got[name], want[name])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: there are %v", what, slices.Sorted(maps.Keys(got)))
		}
	}
}

// A chain of definitions is compared in bounded time, whatever a server sends.
func TestForeignChain(t *testing.T) {
	const length = 500
	ours, theirs := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for i := range length {
		// Sorted by name, the one that differs is the last that is looked at.
		ref := json.RawMessage(fmt.Sprintf(`{"properties":{"a":{"$ref":"#/definitions/D%04d"}}}`, i+1))
		ours[fmt.Sprintf("D%04d", i)], theirs[fmt.Sprintf("D%04d", i)] = ref, ref
	}
	end := fmt.Sprintf("D%04d", length)
	ours[end], theirs[end] = json.RawMessage(`{"type":"string"}`), json.RawMessage(`{"type":"number"}`)
	document, err := json.Marshal(map[string]any{
		"paths": map[string]any{"/apis/a.io/v1/x": map[string]any{"get": map[string]any{"responses": map[string]any{"200": map[string]any{
			"description": "", "schema": map[string]any{"$ref": "#/definitions/D0000"}}}}}},
		"definitions": theirs,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := foreignV2([]Foreign{{Name: "apis/a.io/v1", V2: document}}, ours)
	if len(f.schemas) != length+1 || !strings.Contains(string(f.paths["/apis/a.io/v1/x"]), `{"$ref":"#/definitions/D0000_v2"}`) {
		t.Errorf("%d definitions, the path is %s", len(f.schemas), f.paths["/apis/a.io/v1/x"])
	}
}

// An invalid description of one server does not affect the others.
func TestForeignGarbage(t *testing.T) {
	for _, document := range []string{`[]`, `{"paths":1}`, `{"definitions":[]}`, `{`, `{"paths":{"/apis/a.io/v1/x":{"get":{"parameters":{}}}}}`} {
		good := Foreign{Name: "apis/b.io/v1", V2: []byte(`{"paths":{"/apis/b.io/v1/x":{}}}`)}
		f := foreignV2([]Foreign{{Name: "apis/a.io/v1", V2: []byte(document)}, good}, nil)
		if len(f.paths) != 1 || f.paths["/apis/b.io/v1/x"] == nil {
			t.Errorf("%s: there are %v", document, slices.Sorted(maps.Keys(f.paths)))
		}
	}
}
