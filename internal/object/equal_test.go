package object

import (
	"reflect"
	"testing"
)

func TestEqual(t *testing.T) {
	values := []any{
		nil, true, false, "", "a", int64(0), int64(1), 1.0, []any{}, []any{nil}, []any{"a", int64(1)}, []any{int64(1), "a"},
		map[string]any{}, map[string]any{"a": nil}, map[string]any{"b": nil}, map[string]any{"a": []any{map[string]any{"a": "b"}}},
		map[string]any{"a": []any{map[string]any{"a": "c"}}},
	}
	for _, a := range values {
		for _, b := range values {
			if got, want := Equal(a, b), reflect.DeepEqual(a, b); got != want {
				t.Errorf("Equal(%#v, %#v) = %v", a, b, got)
			}
		}
	}
}
