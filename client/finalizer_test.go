package client_test

import (
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/client"
)

// Finalizers of objects, whose slices others may hold.
func TestFinalizers(t *testing.T) {
	shared := make([]string, 1, 4)
	shared[0] = "a"
	one, two := configMap("one"), configMap("two")
	one.Finalizers, two.Finalizers = shared, shared
	if !client.AddFinalizer(one, "b") || client.AddFinalizer(one, "b") || !client.AddFinalizer(two, "c") {
		t.Error("added")
	}
	if !slices.Equal(one.Finalizers, []string{"a", "b"}) || !slices.Equal(two.Finalizers, []string{"a", "c"}) {
		t.Errorf("finalizers %v and %v", one.Finalizers, two.Finalizers)
	}
	if !client.RemoveFinalizer(one, "a") || client.RemoveFinalizer(one, "a") || client.ContainsFinalizer(one, "a") || !client.ContainsFinalizer(one, "b") {
		t.Errorf("finalizers %v", one.Finalizers)
	}
	if shared[0] != "a" {
		t.Error("the slice of others has changed")
	}
}
