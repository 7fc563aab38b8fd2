// Package selected finds the objects that a label selector matches, and the objects whose selector
// matches given labels, by indices of the cache: the work does not grow with the number of objects
// in the namespace.
//
// An index has pairs "key=value". An object is found by each pair of its labels; a selector is
// found by one of its pairs, which all objects that it matches have. A selector without a pair (one
// that only has expressions such as "key exists") is evaluated for all labels.
//
// It starts no goroutine and has no locks.
package selected

import (
	"context"
	"errors"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	byLabel    = "kapok.dev/label"
	bySelector = "kapok.dev/selector"
	// noPair is the value of selectors without a pair.
	noPair = "none"
)

// IndexLabels indexes the kind of obj by labels, for List. Controllers that share a manager may
// each call it.
func IndexLabels(m manager.Manager, obj client.Object) error {
	return index(m, obj, byLabel, func(o client.Object) (pairs []string) {
		for key, value := range o.GetLabels() {
			pairs = append(pairs, key+"="+value)
		}
		return pairs
	})
}

// IndexSelectors indexes the kind of obj by the selectors that a function returns, for Each; nil
// matches nothing. Controllers that share a manager may each call it, with the same function.
func IndexSelectors(m manager.Manager, obj client.Object, selector func(client.Object) labels.Selector) error {
	return index(m, obj, bySelector, func(o client.Object) []string {
		s := selector(o)
		if s == nil {
			return nil
		}
		if pair, ok := pairOf(s); ok {
			return []string{pair}
		}
		return []string{noPair}
	})
}

func index(m manager.Manager, obj client.Object, name string, values client.IndexerFunc) error {
	err := m.GetFieldIndexer().IndexField(context.Background(), obj, name, values)
	if errors.Is(err, cache.ErrIndexExists) {
		return nil
	}
	return err
}

// List lists into list the objects of a namespace that a selector matches. It may share them with
// the cache: they must not be changed.
func List(ctx context.Context, r client.Reader, list client.ObjectList, namespace string, selector labels.Selector) error {
	opts := []client.ListOption{client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy}
	if pair, ok := pairOf(selector); ok {
		opts = append(opts, client.MatchingFields{byLabel: pair})
	}
	return r.List(ctx, list, opts...)
}

// Each calls do with lists of the objects of a namespace whose selector may match a set of labels:
// the caller has to ask the selector. No object comes twice. The objects must not be changed.
func Each[L client.ObjectList](ctx context.Context, r client.Reader, empty func() L, namespace string, set labels.Set, do func(L)) error {
	list := func(pair string) error {
		l := empty()
		if err := r.List(ctx, l, client.InNamespace(namespace), client.MatchingFields{bySelector: pair}, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		do(l)
		return nil
	}
	for key, value := range set {
		if err := list(key + "=" + value); err != nil {
			return err
		}
	}
	return list(noPair)
}

// pairOf returns the pair by which a selector is found: the one with the longest value, since
// values that name something ("app=checkout-frontend") are longer than those that group many
// ("env=prod"); of several, the first by key.
func pairOf(s labels.Selector) (pair string, ok bool) {
	requirements, _ := s.Requirements()
	longest := -1
	for _, r := range requirements { // sorted by key
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
		default:
			continue
		}
		values := r.ValuesUnsorted()
		if len(values) == 1 && len(values[0]) > longest {
			pair, ok, longest = r.Key()+"="+values[0], true, len(values[0])
		}
	}
	return pair, ok
}
