package cache

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// With these methods a client that reads from a cache reads its own writes.
var (
	_ client.Waiter = (*cache)(nil)
	_ client.Keeper = (*cache)(nil)
)

// WaitForRevision implements client.Waiter.
func (c *cache) WaitForRevision(ctx context.Context, obj runtime.Object, namespace, revision string) error {
	inf, err := c.reader(ctx, obj)
	if err != nil {
		return err
	}
	return inf.waitForRevision(ctx, revision, func(s *source) bool { return s.covers(namespace) })
}

// WaitForDeletion implements client.Waiter.
func (c *cache) WaitForDeletion(ctx context.Context, obj runtime.Object, key client.ObjectKey, uid types.UID, begun bool) error {
	inf, err := c.reader(ctx, obj)
	if err != nil {
		return err
	}
	return inf.waitForDeletion(ctx, key, string(uid), begun)
}

// WaitForChange implements client.Keeper.
func (c *cache) WaitForChange(ctx context.Context, obj runtime.Object, key client.ObjectKey, revision string) error {
	inf, err := c.reader(ctx, obj)
	if err != nil {
		return err
	}
	return inf.waitForChange(ctx, key, revision, (*source).selects)
}

// Keeps implements client.Keeper. It evaluates field selectors on name, namespace, and string
// fields of Go types.
func (c *cache) Keeps(obj client.Object) bool {
	gvk, err := client.GVKForObject(obj, c.Scheme)
	if err != nil {
		return true
	}
	kept, _, _ := c.settingsFor(gvk)
	return slices.ContainsFunc(kept.sources(obj.GetNamespace() != ""), func(s source) bool {
		return s.covers(obj.GetNamespace()) && !s.excludes(obj)
	})
}

// selects reports whether some objects of a cached namespace may be excluded.
func (s *source) selects() bool {
	return s.LabelSelector != nil && !s.LabelSelector.Empty() || s.FieldSelector != nil && !s.FieldSelector.Empty()
}

// excludes reports whether an object of a cached namespace is certainly excluded.
func (s *source) excludes(obj client.Object) bool {
	if s.LabelSelector != nil && !s.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
		return true
	}
	if s.FieldSelector == nil {
		return false
	}
	for _, r := range s.FieldSelector.Requirements() {
		value, ok := fieldOf(obj, r.Field)
		if ok && (r.Operator == "!=") == (r.Value == value) {
			return true
		}
	}
	return false
}

// fieldOf returns the value of a field for field selectors, if it is known: servers name the string
// fields of an object by their path. The form of other types is up to the server.
func fieldOf(obj client.Object, path string) (value string, ok bool) {
	switch path {
	case "metadata.name":
		return obj.GetName(), true
	case "metadata.namespace":
		return obj.GetNamespace(), true
	}
	at := reflect.ValueOf(obj).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if at.Kind() != reflect.Struct {
			return "", false
		}
		t := at.Type()
		i := 0
		for i < t.NumField() && strings.Split(t.Field(i).Tag.Get("json"), ",")[0] != name {
			i++
		}
		if i == t.NumField() {
			return "", false
		}
		at = at.Field(i)
	}
	return at.String(), at.Kind() == reflect.String
}
