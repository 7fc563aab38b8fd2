package resource_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"
)

func retired(d *resource.Definition) bool {
	select {
	case <-d.Retired():
		return true
	default:
		return false
	}
}

func TestRetired(t *testing.T) {
	r := resource.NewRegistry()
	first := widgets()
	r.Put(first)
	second := widgets()
	r.Put(second)
	if !retired(first) || retired(second) {
		t.Error("a definition is retired when another takes its place, and not before")
	}
	third := second.AsTerminating()
	r.Put(third)
	if retired(second) || retired(third) {
		t.Error("watches go on while a definition is on its way out")
	}
	r.Remove(third.GroupResource())
	if !retired(third) {
		t.Error("a definition is retired when it is removed")
	}
	r.Put(third)
	if retired(third) {
		t.Error("a definition that comes back is not retired")
	}
}
