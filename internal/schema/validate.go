package schema

import (
	"context"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// explain validates v, which is at base, and returns its errors. old is nil unless v is an update.
func (n *node) explain(ctx context.Context, base *field.Path, v any, old *correlation) field.ErrorList {
	if n.validate(v, nil, nil, nil) {
		return nil
	}
	r := report{until: &deadline{ctx: ctx}}
	n.validateChild(v, nil, &r, old)
	return r.errors(base)
}

// validate reports whether v is valid. Without a report, it stops at the first violated rule. With
// a report, it checks all rules, in Kubernetes' order: type, alternatives, the rules of the value's
// type, enum, properties. old correlates v with the value that it replaces; it is nil if there is
// none, or no report.
func (n *node) validate(v any, at *path, r *report, old *correlation) bool {
	if r != nil && r.until.over() {
		return false
	}
	if v == nil {
		return n.validateNull(at, r)
	}
	got := typeOf(v)
	ok := n.validateType(v, got, at, r)
	rules := n.rules
	if rules == nil {
		rules = &noRules
	}
	if l := rules.logic; l != nil && (ok || r != nil) {
		if r == nil {
			ok = l.verdict(v)
		} else {
			ok = l.explain(v, at, r) && ok
		}
	} else if r != nil {
		r.matches++
	}
	if !ok && r == nil {
		return false
	}
	switch v := v.(type) {
	case string:
		ok = rules.validateText(v, at, r) && ok
	case int64:
		ok = (rules.number == nil || rules.number.validateInt(v, at, r)) && ok
	case float64:
		ok = n.validateFloat(v, rules, at, r) && ok
	case []any:
		ok = n.validateList(v, rules, at, r, old) && ok
	}
	if len(rules.enum) > 0 && (ok || r != nil) && !allowed(v, rules.enum) {
		ok = r != nil && r.notAllowed(at, v, rules.enum)
	}
	if obj, is := v.(map[string]any); is && (ok || r != nil) {
		ok = n.validateObject(obj, rules, at, r, old) && ok
	}
	if r != nil {
		r.matches += n.matches(got, rules)
	}
	return ok
}

// noRules are the rules of nodes without rules. It is never modified.
var noRules rules

// matches counts Kubernetes' validators that apply to a value of the given type: those for numbers
// and lists count twice. Alternatives, properties, items and a matching type are counted where they
// are validated.
func (n *node) matches(got typeSet, r *rules) int {
	m := 3 // alternatives, enum, the schema itself
	if n.types != 0 || r.format != nil {
		m++
	}
	switch got {
	case typeString:
		m++
		if r.format != nil && r.format.valid != nil {
			m++
		}
	case typeInteger, typeNumber, typeArray:
		m += 2
	case typeObject:
		m++
	}
	return m
}

func (n *node) validateNull(at *path, r *report) bool {
	ok := true
	if n.types != 0 && n.types&typeNull == 0 && !n.nullable {
		ok = r != nil && r.typeInvalid(at, n.typeNames(), "null")
	} else if r != nil {
		r.matches++
	}
	if n.rules != nil && len(n.rules.enum) > 0 && (ok || r != nil) {
		ok = r != nil && r.notAllowed(at, nil, n.rules.enum)
	}
	return ok
}

func (n *node) typeNames() string {
	if n.types == typeOther {
		return n.rules.typeName
	}
	return n.types.String()
}

// validateType validates the type. As in Kubernetes, a format has side effects: any string or list
// is accepted unless numbers are wanted, and for other values the error names the format as the
// wanted type.
func (n *node) validateType(v any, got typeSet, at *path, r *report) bool {
	const numbers = typeInteger | typeNumber
	var f *format
	if n.rules != nil {
		f = n.rules.format
	}
	fits := n.types&got != 0
	if !fits {
		switch got {
		case typeInteger:
			fits = n.types&typeNumber != 0
		case typeNumber:
			fits = n.types&typeInteger != 0 && isIntegral(v.(float64))
		}
	}
	switch {
	case fits, n.types == 0 && f == nil:
	case f == nil, n.types&numbers != 0 && (got == typeString || got == typeArray):
		return r != nil && r.typeInvalid(at, n.typeNames(), got.String())
	case got == typeString || got == typeArray:
	default:
		return r != nil && r.typeInvalid(at, f.name, numberFormat(got))
	}
	if r != nil && (n.types != 0 || f != nil) {
		r.matches++
	}
	return true
}

// numberFormat returns the implied format of a number.
func numberFormat(got typeSet) string {
	switch got {
	case typeInteger:
		return "int64"
	case typeNumber:
		return "float64"
	}
	return ""
}

func (r *rules) validateText(s string, at *path, rep *report) bool {
	ok := r.text == nil || r.text.validate(s, at, rep)
	if f := r.format; f != nil && f.valid != nil && (ok || rep != nil) && !f.valid(s) {
		ok = rep != nil && rep.typeInvalid(at, f.name, s)
	}
	return ok
}

func (n *node) validateFloat(f float64, rules *rules, at *path, r *report) bool {
	if rules.number != nil {
		return rules.number.validateFloat(f, at, r)
	}
	if n.types != typeInteger {
		return true
	}
	t := numberType{name: "integer"}
	return t.fits(f) || r != nil && t.misfit("Checked", at, r)
}

func (n *node) validateList(list []any, rules *rules, at *path, r *report, old *correlation) bool {
	ok := true
	if n.items != nil {
		step := path{up: at, kind: stepIndex}
		for i, v := range list {
			step.index = i
			if !n.items.validateChild(v, &step, r, old.item(v)) {
				if ok = false; r == nil {
					return false
				}
			}
		}
	}
	size := rules.size
	if size == nil {
		return ok
	}
	count := int64(len(list))
	if count < size.minItems {
		ok = r != nil && r.invalid(at, count, "should have at least %d items", size.minItems)
	}
	if count > size.maxItems && (ok || r != nil) {
		ok = r != nil && r.add(at.name(), "should have at most %d items", []any{size.maxItems},
			field.TooMany(nil, int(count), int(size.maxItems)))
	}
	if size.unique && (ok || r != nil) && repeats(list) {
		ok = r != nil && r.invalid(at, "", "shouldn't contain duplicates")
	}
	return ok
}

func repeats(list []any) bool {
	for i, v := range list {
		for _, w := range list[:i] {
			if object.Equal(v, w) {
				return true
			}
		}
	}
	return false
}

func (n *node) validateObject(obj map[string]any, rules *rules, at *path, r *report, old *correlation) bool {
	ok := true
	if size := rules.size; size != nil {
		count := int64(len(obj))
		if count < size.minProperties {
			ok = r != nil && r.invalid(at, count, "should have at least %d properties", size.minProperties)
		}
		if count > size.maxProperties && (ok || r != nil) {
			ok = r != nil && r.add(at.name(), "should have at most %d properties", []any{size.maxProperties},
				field.TooMany(nil, int(count), int(size.maxProperties)))
		}
		if !ok && r == nil {
			return false
		}
	}
	if r == nil {
		return n.verdict(obj, rules.required)
	}
	step := path{up: at, kind: stepKey}
	if n.closed || n.additional != nil {
		for _, k := range slices.Sorted(maps.Keys(obj)) {
			switch step.key = k; {
			case n.field(k) != nil:
			case n.closed:
				ok = r.forbidden(at, k)
			default:
				ok = n.additional.validateChild(obj[k], &step, r, old.property(k)) && ok
			}
		}
	}
	step.kind = stepField
	for _, f := range n.fields {
		if v, found := obj[f.name]; found {
			step.key = f.name
			ok = f.node.validateChild(v, &step, r, old.property(f.name)) && ok
		}
	}
	for _, k := range rules.required {
		if _, found := obj[k]; !found {
			ok = r.add(at.childName(k), "is required", nil, field.Required(nil, ""))
		}
	}
	return ok
}

// verdict is validateObject without a report: it visits properties in the random order of the map.
func (n *node) verdict(obj map[string]any, required []string) bool {
	for _, k := range required {
		if _, found := obj[k]; !found {
			return false
		}
	}
	if len(n.fields) == 0 && n.additional == nil && !n.closed {
		return true
	}
	for k, v := range obj {
		c := n.field(k)
		if c == nil {
			if n.closed {
				return false
			}
			c = n.additional
		}
		if c != nil && !c.validate(v, nil, nil, nil) {
			return false
		}
	}
	return true
}

// forbidden reports a property that must not exist.
func (r *report) forbidden(at *path, key string) bool {
	message := at.childName(key) + " in body is a forbidden property"
	r.findings = append(r.findings, finding{at.name(), message, field.Invalid(nil, key, message)})
	return false
}
