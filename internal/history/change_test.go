package history

import (
	"slices"
	"testing"
)

func TestChanged(t *testing.T) {
	before := map[string]any{"a": map[string]any{"b": int64(1), "c": "x"}, "list": []any{"1"}, "metadata": map[string]any{"resourceVersion": "1", "labels": map[string]any{"l": "1"}}}
	after := map[string]any{"a": map[string]any{"b": int64(2), "c": "x"}, "list": []any{"1", "2"}, "metadata": map[string]any{"resourceVersion": "2"}, "new": true}
	if got, want := Changed(before, after), []string{"a.b", "list", "metadata.labels", "new"}; !slices.Equal(got, want) {
		t.Errorf("changed %v, want %v", got, want)
	}
	if got := Changed(before, before); len(got) > 0 {
		t.Errorf("changed %v in the same object", got)
	}
}
