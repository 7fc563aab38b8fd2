package fields

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typed is an object together with its type.
type typed struct {
	tree Tree
	node *node
}

// typedOf validates an object, and returns it with its type.
func (m *Manager) typedOf(obj Tree, repeats bool) (typed, error) {
	n := m.own
	if !m.isOwn(obj) {
		gvk := kindOf(obj)
		t := m.Type(gvk)
		if t == nil {
			return typed{}, &missingType{gvk}
		}
		n = t.root
	}
	if err := validate(n, obj, repeats); err != nil {
		return typed{}, err
	}
	return typed{obj, n}, nil
}

// convert returns an object in another version; repeated items there are an error.
func (m *Manager) convert(obj typed, version string) (typed, error) {
	if obj.tree["apiVersion"] == version {
		return obj, nil
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return typed{}, err
	}
	if has, ok := obj.tree["apiVersion"].(string); ok {
		if is, err := schema.ParseGroupVersion(has); err == nil && is == gv {
			return obj, nil
		}
	}
	if obj.tree == nil { // an empty object
		return typed{}, errors.New("failed to convert value to unstructured for type <nil>")
	}
	if m.Convert == nil {
		return typed{}, &missingType{gv.WithKind(m.kind)}
	}
	tree, err := m.Convert(obj.tree, gv)
	if err != nil {
		return typed{}, err
	}
	return m.typedOf(tree, false)
}

// missingType is the error for a kind without a type.
type missingType struct{ kind schema.GroupVersionKind }

func (e *missingType) Error() string { return fmt.Sprintf("no corresponding type for %v", e.kind) }

// isMissing reports whether an error means that a version does not exist.
func isMissing(err error) bool {
	if err == nil {
		return false
	}
	_, ok := err.(*missingType)
	return ok || runtime.IsNotRegisteredError(err)
}

func kindOf(obj Tree) schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: obj}).GroupVersionKind()
}

// describe returns an object as shown in messages.
func describe(obj Tree) string {
	u := &unstructured.Unstructured{Object: obj}
	return fmt.Sprintf("%v/%v; %v", u.GetNamespace(), u.GetName(), u.GroupVersionKind())
}

// views are an object in the versions of entries. It is converted at most once to each.
type views struct {
	m     *Manager
	own   typed
	other map[string]view
}

type view struct {
	typed
	err error
}

func (v *views) in(version string) (typed, error) {
	if v.own.tree["apiVersion"] == version {
		return v.own, nil
	}
	at, ok := v.other[version]
	if !ok {
		at.typed, at.err = v.m.convert(v.own, version)
		if v.other == nil {
			v.other = map[string]view{}
		}
		v.other[version] = at
	}
	return at.typed, at.err
}

// comparisons are those of two objects in the versions of entries.
type comparisons struct {
	m        *Manager
	old, new views
	own      *transition
	other    map[string]*transition
}

// transition is a comparison without the fields that no manager can own, and the set of all its
// fields.
type transition struct {
	comparison
	touched fields
}

func (m *Manager) newComparisons(old, new typed) *comparisons {
	return &comparisons{m: m, old: views{m: m, own: old}, new: views{m: m, own: new}}
}

// compareOwn compares and validates two objects in the version of the Manager.
func (m *Manager) compareOwn(live, obj Tree) (*comparisons, error) {
	if m.isOwn(live) && m.isOwn(obj) {
		if result, ok := compare(m.own, live, obj); ok {
			c := m.newComparisons(typed{live, m.own}, typed{obj, m.own})
			c.own = m.transition(result, m.apiVersion)
			return c, nil
		}
	}
	to, err := m.typedOf(obj, true)
	if err != nil {
		return nil, fmt.Errorf("failed to convert new object (%v) to smd typed: %v", describe(obj), err)
	}
	from, err := m.typedOf(live, true)
	if err != nil {
		return nil, fmt.Errorf("failed to convert live object (%v) to smd typed: %v", describe(live), err)
	}
	c := m.newComparisons(from, to)
	if _, err := c.in(m.apiVersion); err != nil {
		return nil, fmt.Errorf("failed to update ManagedFields (%v): %v", describe(obj), err)
	}
	return c, nil
}

func (c *comparisons) in(version string) (*transition, error) {
	if version == c.m.apiVersion {
		if c.own == nil {
			var err error
			if c.own, err = c.compare(version); err != nil {
				return nil, err
			}
		}
		return c.own, nil
	}
	if t := c.other[version]; t != nil {
		return t, nil
	}
	t, err := c.compare(version)
	if err != nil {
		return nil, err
	}
	if c.other == nil {
		c.other = map[string]*transition{}
	}
	c.other[version] = t
	return t, nil
}

func (c *comparisons) compare(version string) (*transition, error) {
	from, err := c.old.in(version)
	if err != nil {
		return nil, wrapUnlessMissing("failed to convert old object: %w", err)
	}
	to, err := c.new.in(version)
	if err != nil {
		return nil, wrapUnlessMissing("failed to convert new object: %w", err)
	}
	result, ok := compareShared(from.node, from.tree, to.tree)
	if !ok {
		return nil, fmt.Errorf("failed to compare objects: %w", errors.Join(validate(from.node, from.tree, true), validate(to.node, to.tree, true)))
	}
	return c.m.transition(result, version), nil
}

func (m *Manager) transition(c comparison, version string) *transition {
	if reset := m.reset[version]; reset != nil {
		c.gone, c.set = recursiveDifference(c.gone, reset), recursiveDifference(c.set, reset)
	}
	return &transition{c, c.touched()}
}

func wrapUnlessMissing(format string, err error) error {
	if isMissing(err) {
		return err
	}
	return fmt.Errorf(format, err)
}
