package fields

import (
	"fmt"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// validate returns the errors of an object, in the words of the library. Unless repeats is true,
// repeated items of a set or of a list map are errors, as in an applied object.
func validate(n *node, obj Tree, repeats bool) error {
	if n.fits(obj, repeats) {
		return nil
	}
	v := validator{repeats: repeats}
	v.explain(n, obj)
	return v.errs
}

// fits reports whether a value is valid.
func (n *node) fits(v any, repeats bool) bool {
	if v == nil || n.open {
		return true
	}
	switch n.kindOf(v) {
	case kindMap:
		m, ok := v.(map[string]any)
		if !ok {
			return false
		}
		for name, item := range m {
			if child, _ := n.child(name); child == nil || !child.fits(item, repeats) {
				return false
			}
		}
		return true
	case kindScalar:
		return n.holds(v)
	case kindList:
		list, ok := v.([]any)
		if !ok {
			return false
		}
		for _, item := range list {
			if !n.atomicList && n.itemError(item) != nil || !n.items.fits(item, repeats) {
				return false
			}
		}
		return repeats || n.atomicList || n.distinct(list)
	}
	return false
}

// holds reports whether a value is a scalar of the type of the node.
func (n *node) holds(v any) bool {
	if n.kinds&kindScalar == 0 {
		return false
	}
	switch v.(type) {
	case string:
		return n.scalar == smd.String || n.scalar == smd.Untyped
	case int64, float64:
		return n.scalar == smd.Numeric || n.scalar == smd.Untyped
	case bool:
		return n.scalar == smd.Boolean || n.scalar == smd.Untyped
	}
	return false
}

// distinct reports whether no two items have the same element.
func (n *node) distinct(list []any) bool {
	if len(list) <= few {
		for i, item := range list {
			for _, before := range list[:i] {
				if n.sameItem(before, item) {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[string]struct{}, len(list))
	for _, item := range list {
		seen[n.elementOf(item)] = struct{}{}
	}
	return len(seen) == len(list)
}

// misfit is an error at one path of an object.
type misfit struct{ path, message string }

func (e misfit) String() string {
	if e.path == "" {
		return e.message
	}
	return e.path + ": " + e.message
}

// misfits is an error with all of them.
type misfits []misfit

func (errs misfits) Error() string {
	if len(errs) == 1 {
		return errs[0].String()
	}
	lines := []string{"errors:"}
	for _, e := range errs {
		lines = append(lines, "  "+e.String())
	}
	return strings.Join(lines, "\n")
}

// A validator collects the errors of an invalid value.
type validator struct {
	repeats bool
	path    []string
	errs    misfits
}

// maxMisfits limits the number of errors in a message, to keep it readable.
const maxMisfits = 100

func (v *validator) report(format string, args ...any) {
	if len(v.errs) < maxMisfits {
		v.errs = append(v.errs, misfit{strings.Join(v.path, ""), fmt.Sprintf(format, args...)})
	}
}

func (v *validator) at(step string, n *node, item any) {
	v.path = append(v.path, step)
	v.explain(n, item)
	v.path = v.path[:len(v.path)-1]
}

func (v *validator) explain(n *node, x any) {
	if x == nil || n.open {
		return
	}
	switch n.kindOf(x) {
	case kindMap:
		m, ok := x.(map[string]any)
		if !ok {
			v.report("expected map, got %v", value.NewValueInterface(x))
			return
		}
		v.object(n, m)
	case kindScalar:
		if !n.holds(x) {
			v.scalar(n, x)
		}
	case kindList:
		list, ok := x.([]any)
		if !ok {
			v.report("expected list, got %v", value.NewValueInterface(x))
			return
		}
		v.list(n, list)
	default:
		v.report("schema error: invalid atom: inlined")
	}
}

func (v *validator) object(n *node, m map[string]any) {
	for _, name := range sortedKeys(m) {
		child, _ := n.child(name)
		if child == nil {
			v.path = append(v.path, "."+name)
			v.report("field not declared in schema")
			v.path = v.path[:len(v.path)-1]
			return
		}
		v.at("."+name, child, m[name])
	}
}

func (v *validator) scalar(n *node, x any) {
	switch n.scalar {
	case smd.Numeric:
		v.report("expected numeric (int or float), got %T", x)
	case smd.String:
		v.report("expected string, got %#v", value.NewValueInterface(x))
	case smd.Boolean:
		v.report("expected boolean, got %v", value.NewValueInterface(x))
	case smd.Untyped:
		v.report("expected any scalar, got %v", value.NewValueInterface(x))
	default:
		v.report("unexpected scalar type in schema: %v", n.scalar)
	}
}

func (v *validator) list(n *node, list []any) {
	seen := map[string]bool{}
	for i, item := range list {
		if n.atomicList {
			v.at(fmt.Sprintf("[%d]", i), n.items, item)
			continue
		}
		if err := n.itemError(item); err != nil {
			v.report("element %v: %v", i, err)
			return
		}
		element := n.elementOf(item)
		shown := n.show(item)
		if seen[element] && !v.repeats {
			v.report("duplicate entries for key %v", shown)
		}
		seen[element] = true
		v.at(shown, n.items, item)
	}
}

// show returns an item's element as shown in messages.
func (n *node) show(item any) string {
	if len(n.keys) == 0 {
		return "[=" + value.ToString(value.NewValueInterface(item)) + "]"
	}
	m, _ := item.(map[string]any)
	var parts []string
	for i := range n.keys {
		if v, ok := n.keys[i].of(m); ok {
			parts = append(parts, n.keys[i].name+"="+value.ToString(value.NewValueInterface(v)))
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}
