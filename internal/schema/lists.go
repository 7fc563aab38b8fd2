package schema

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// listType is the x-kubernetes-list-type of a list whose items must be unique, by value or by their
// keys.
type listType struct {
	kind listKind
	keys []string
}

type listKind uint8

const (
	listSet listKind = iota + 1
	listMap
)

func listTypeFor(s *apiextensionsv1.JSONSchemaProps) *listType {
	if s.XListType == nil {
		return nil
	}
	switch *s.XListType {
	case "set":
		return &listType{kind: listSet}
	case "map":
		return &listType{kind: listMap, keys: slices.Clone(s.XListMapKeys)}
	}
	return nil
}

// validateLists validates the uniqueness of items in v, whose schema is n, and below.
func validateLists(v any, n *node, at *path) field.ErrorList {
	if n == nil || !n.keyed {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		return validateListsIn(v, n, at)
	case []any:
		var errs field.ErrorList
		if n.list != nil && !n.list.distinct(v) {
			errs = n.list.validate(v, at.field())
		}
		if n.items != nil && n.items.keyed {
			step := path{up: at, kind: stepIndex}
			for i, item := range v {
				step.index = i
				errs = append(errs, validateLists(item, n.items, &step)...)
			}
		}
		return errs
	}
	return nil
}

func validateListsIn(obj map[string]any, n *node, at *path) (errs field.ErrorList) {
	if n.additional != nil && n.additional.keyed {
		step := path{up: at, kind: stepKey}
		for _, k := range slices.Sorted(maps.Keys(obj)) {
			step.key = k
			errs = append(errs, validateLists(obj[k], n.additional, &step)...)
		}
	}
	step := path{up: at}
	for _, f := range n.fields {
		if !f.node.keyed {
			continue
		}
		if v, found := obj[f.name]; found {
			step.key = f.name
			errs = append(errs, validateLists(v, f.node, &step)...)
		}
	}
	return errs
}

// distinct is a fast check of a list: it returns true only if validate would find nothing. It
// compares pairs, which is faster than hashing for short lists.
func (l *listType) distinct(list []any) bool {
	const many = 40
	if l.kind == listMap {
		for _, item := range list {
			if _, ok := item.(map[string]any); !ok {
				return false
			}
		}
	}
	if len(list) > many {
		return false
	}
	for i, a := range list {
		for _, b := range list[:i] {
			if !l.differ(a, b) {
				return false
			}
		}
	}
	return true
}

// differ reports whether two items certainly differ.
func (l *listType) differ(a, b any) bool {
	if l.kind == listSet {
		return differ(a, b)
	}
	x, y := a.(map[string]any), b.(map[string]any)
	for _, k := range l.keys {
		if differ(x[k], y[k]) {
			return true
		}
	}
	return false
}

// differ reports whether two scalars differ in any comparison. It returns false if it is not
// certain.
func differ(a, b any) bool {
	switch a := a.(type) {
	case string:
		switch b := b.(type) {
		case string:
			return a != b
		case int64, float64, bool:
			return true
		}
	case int64:
		switch b := b.(type) {
		case int64:
			return a != b
		case string, bool:
			return true
		}
	case bool:
		switch b := b.(type) {
		case bool:
			return a != b
		case string, int64, float64:
			return true
		}
	}
	return false
}

// validate reports each value that occurs again in a list, once.
func (l *listType) validate(list []any, at *field.Path) field.ErrorList {
	if l.kind == listSet {
		return duplicates(list, list, at)
	}
	for i, item := range list {
		if _, ok := item.(map[string]any); item != nil && !ok {
			return field.ErrorList{field.Invalid(at.Index(i), item, "must be an object for an array of list-type map")}
		}
	}
	keys, shown := make([]any, len(list)), make([]any, len(list))
	for i, item := range list {
		obj, _ := item.(map[string]any)
		key := make(map[string]any, len(l.keys))
		for _, k := range l.keys {
			if v, found := obj[k]; found {
				key[k] = v
			}
		}
		keys[i], shown[i] = key, key
		if len(l.keys) == 1 { // a single key is compared by value, which distinguishes 1 and 1.0
			if v, found := key[l.keys[0]]; found {
				keys[i] = v
			} else {
				keys[i] = absent{}
			}
		}
	}
	return duplicates(keys, shown, at)
}

// absent is the value of a key that an item lacks.
type absent struct{}

// duplicates reports the second occurrence of each value. Scalars are compared by type and value,
// others by their JSON.
func duplicates(values, shown []any, at *field.Path) (errs field.ErrorList) {
	seen := make(map[any]int, len(values))
	for i, v := range values {
		key := v
		if !isScalar(v) {
			b, err := json.Marshal(v)
			if err != nil {
				return field.ErrorList{field.Invalid(at.Index(i), v, "internal error")}
			}
			key = compound(b)
		}
		if seen[key]++; seen[key] == 2 {
			errs = append(errs, field.Duplicate(at.Index(i), shown[i]))
		}
	}
	return errs
}

// compound is the JSON of an object or a list, distinct from a string of the same bytes.
type compound string
