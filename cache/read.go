package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Get implements client.Reader.
func (c *cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	inf, err := c.reader(ctx, obj)
	if err != nil {
		return err
	}
	if err := inf.accepts(key); err != nil {
		return fmt.Errorf("GET %s %q: %w", inf.kind.gvk.Kind, strings.TrimPrefix(key.String(), "/"), err)
	}
	e := inf.get(key)
	if e == nil {
		if !inf.keeps(key.Namespace) {
			return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
		}
		return apierrors.NewNotFound(inf.resource(), key.Name)
	}
	return inf.kind.readInto(e, obj, inf.kind.shares(new(client.GetOptions).ApplyOptions(opts).UnsafeDisableDeepCopy))
}

// shares reports whether a read shares objects with the cache, as its options or those of the kind
// say.
func (k *kind) shares(asked *bool) bool {
	if asked != nil {
		return *asked
	}
	return k.shared
}

// List implements client.Reader.
func (c *cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if err := o.Err(); err != nil {
		return err
	}
	if o.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	inf, err := c.reader(ctx, list)
	if err != nil {
		return err
	}
	if o.Namespace != "" && !inf.namespaced() {
		return fmt.Errorf("GET %s %q: %w", inf.kind.gvk.Kind, o.Namespace+"/", errNoNamespaces)
	}
	if o.Namespace != "" && !inf.keeps(o.Namespace) {
		return fmt.Errorf("unable to list: %v because of unknown namespace for the cache", o.Namespace)
	}
	found, err := inf.snapshot().find(o)
	if err != nil {
		return err
	}
	var entries []*entry
	for e := range found {
		if o.LabelSelector != nil && !o.LabelSelector.Empty() {
			if ok, err := inf.kind.matches(e, o.LabelSelector); err != nil {
				return fmt.Errorf("labels of %s: %w", e.key(), err)
			} else if !ok {
				continue
			}
		}
		if entries = append(entries, e); o.Limit > 0 && int64(len(entries)) == o.Limit {
			break
		}
	}
	return inf.kind.decodeList(entries, list, inf.kind.shares(o.UnsafeDisableDeepCopy))
}

// find returns the entries of a namespace that match a field selector, for which an index must
// exist.
func (s *store) find(o *client.ListOptions) (iter.Seq[*entry], error) {
	if o.FieldSelector == nil || o.FieldSelector.Empty() {
		return s.all(o.Namespace), nil
	}
	requirements := o.FieldSelector.Requirements()
	indices := make([]int, len(requirements))
	for i, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return nil, errors.New("non-exact field matches are not supported by the cache")
		}
		if indices[i] = s.index(r.Field); indices[i] < 0 {
			return nil, fmt.Errorf("index with name field:%s does not exist", r.Field)
		}
	}
	first := s.by(indices[0], requirements[0].Value, o.Namespace)
	if len(requirements) == 1 {
		return first, nil
	}
	return func(yield func(*entry) bool) {
		for e := range first {
			all := true
			for i, r := range requirements {
				all = all && slices.Contains(e.values[indices[i]], r.Value)
			}
			if all && !yield(e) {
				return
			}
		}
	}, nil
}

var errNoNamespaces = errors.New("the kind is cluster-scoped")

// accepts validates the key of an object, as a client that reads from the server does.
func (inf *informer) accepts(key client.ObjectKey) error {
	switch namespaced := inf.namespaced(); {
	case key.Namespace != "" && !namespaced:
		return errNoNamespaces
	case key.Namespace == "" && namespaced:
		return errors.New("the namespace is missing")
	case key.Name == "":
		return errors.New("the name is missing")
	}
	return nil
}

func (inf *informer) namespaced() bool {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return inf.mu.mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// keeps reports whether objects of a namespace are cached.
func (inf *informer) keeps(namespace string) bool {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return slices.ContainsFunc(inf.mu.sources, func(s source) bool { return s.covers(namespace) })
}

func (inf *informer) resource() schema.GroupResource {
	inf.mu.RLock()
	defer inf.mu.RUnlock()
	return inf.mu.mapping.Resource.GroupResource()
}

// decodeList decodes entries into the items of a list.
func (k *kind) decodeList(entries []*entry, list client.ObjectList, shared bool) error {
	switch l := list.(type) {
	case *unstructured.UnstructuredList:
		l.Items = make([]unstructured.Unstructured, len(entries))
		for i, e := range entries {
			if err := k.readInto(e, &l.Items[i], shared); err != nil {
				return err
			}
		}
		return nil
	case *metav1.PartialObjectMetadataList:
		l.Items = make([]metav1.PartialObjectMetadata, len(entries))
		for i, e := range entries {
			if err := k.readInto(e, &l.Items[i], shared); err != nil {
				return err
			}
		}
		return nil
	}
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(pointer).Elem()
	element := items.Type().Elem()
	if element.Kind() == reflect.Interface {
		objects := make([]runtime.Object, len(entries))
		for i, e := range entries {
			if objects[i], err = k.decode(e); err != nil {
				return err
			}
		}
		return meta.SetList(list, objects)
	}
	slice := reflect.MakeSlice(items.Type(), len(entries), len(entries))
	for i, e := range entries {
		at := slice.Index(i)
		if element.Kind() == reflect.Pointer {
			at.Set(reflect.New(element.Elem()))
		} else {
			at = at.Addr()
		}
		obj, ok := at.Interface().(client.Object)
		if !ok {
			return fmt.Errorf("items of %T have no metadata", list)
		}
		if err := k.readInto(e, obj, shared); err != nil {
			return err
		}
	}
	items.Set(slice)
	return nil
}
