package openapi

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestWithoutDescriptions(t *testing.T) {
	for raw, want := range map[string]string{
		``:                                  ``,
		`{}`:                                `{}`,
		`{"description":"a"}`:               `{}`,
		`{"description":"a","type":"b"}`:    `{"type":"b"}`,
		`{"a":"b","description":"c"}`:       `{"a":"b"}`,
		`{"a":1,"description":"c","d":2}`:   `{"a":1,"d":2}`,
		`{"description":"\"x\\","d":2}`:     `{"d":2}`,
		`{"properties":{"description":{}}}`: `{"properties":{"description":{}}}`,
		`{"default":"\"description\":\"a"}`: `{"default":"\"description\":\"a"}`,
		`{"description":"`:                  `{`,
	} {
		if got := withoutDescriptions(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// TestWithoutDescriptionsAgainstDecoding compares withoutDescriptions with decoding, removing and
// encoding, for all definitions.
func TestWithoutDescriptionsAgainstDecoding(t *testing.T) {
	for name, raw := range Builtin().All() {
		var got, want any
		if err := json.Unmarshal([]byte(withoutDescriptions(raw)), &got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if want = remove(want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func remove(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for key := range v {
			v[key] = remove(v[key])
		}
	case []any:
		for i := range v {
			v[i] = remove(v[i])
		}
	}
	return v
}
