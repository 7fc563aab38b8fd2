package schema

import (
	"fmt"
	"math"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// numberRules restrict numbers. Integers are compared as integers, with bounds truncated to
// integers, if the bounds fit the declared type and format; other bounds are reported for every
// value, and compared as floats.
type numberRules struct {
	multipleOf, maximum, minimum       *bound
	exclusiveMaximum, exclusiveMinimum bool
	numberType
}

type bound struct {
	value float64
	fits  bool // value fits the declared type and format
}

// numberType is the declared type and format of a number; empty if they do not restrict its range.
type numberType struct {
	name, format string
}

func numberRulesFor(s *apiextensionsv1.JSONSchemaProps, types typeSet, f *format) *numberRules {
	n := numberRules{exclusiveMaximum: s.ExclusiveMaximum, exclusiveMinimum: s.ExclusiveMinimum}
	if types == typeInteger || types == typeNumber {
		n.name = types.String()
		if f != nil {
			n.format = f.name
		}
	}
	boundFor := func(v *float64) *bound {
		if v == nil {
			return nil
		}
		return &bound{*v, n.fits(*v)}
	}
	n.multipleOf, n.maximum, n.minimum = boundFor(s.MultipleOf), boundFor(s.Maximum), boundFor(s.Minimum)
	if n.multipleOf == nil && n.maximum == nil && n.minimum == nil && n.format == "" {
		return nil
	}
	kept := n
	return &kept
}

// fits reports whether f is in the range of the type. Like Kubernetes, it uses the decimal form: at
// the limits of 64 bits, the result differs.
func (t numberType) fits(f float64) bool {
	switch {
	case t.name == "integer":
		bits := 64
		if t.format == "int32" {
			bits = 32
		}
		_, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, bits)
		return err == nil
	case t.format == "float":
		_, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', -1, 64), 32)
		return err == nil
	}
	return true
}

func (t numberType) fitsInt(i int64) bool {
	return t.name != "integer" || t.format != "int32" || i == int64(int32(i))
}

// misfit reports a value, or its bound, that is out of the type's range.
func (t numberType) misfit(what string, at *path, r *report) bool {
	if t.format == "" {
		return r.unplaced("%s value must be of type %s (default format) in %s", what, t.name, at.name())
	}
	return r.unplaced("%s value must be of type %s with format %s in %s", what, t.name, t.format, at.name())
}

func (n *numberRules) validateInt(i int64, at *path, r *report) bool {
	ok := n.fitsInt(i) || r != nil && n.misfit("Checked", at, r)
	if b := n.multipleOf; b != nil && (ok || r != nil) {
		if factor := int64(b.value); !b.fits {
			ok = n.validateMultiple(float64(i), at, r) && ok
		} else if factor <= 0 {
			ok = r != nil && r.badFactor(at, factor)
		} else if i%factor != 0 {
			ok = r != nil && r.invalid(at, i, "should be a multiple of %v", factor)
		}
	}
	if b := n.minimum; b != nil && (ok || r != nil) {
		if min := int64(b.value); !b.fits {
			ok = n.validateMinimum(float64(i), at, r) && ok
		} else if i < min || i == min && n.exclusiveMinimum {
			ok = r != nil && r.tooSmall(at, i, min, n.exclusiveMinimum)
		}
	}
	if b := n.maximum; b != nil && (ok || r != nil) {
		if max := int64(b.value); !b.fits {
			ok = n.validateMaximum(float64(i), at, r) && ok
		} else if i > max || i == max && n.exclusiveMaximum {
			ok = r != nil && r.tooLarge(at, i, max, n.exclusiveMaximum)
		}
	}
	return ok
}

func (n *numberRules) validateFloat(f float64, at *path, r *report) bool {
	ok := n.fits(f) || r != nil && n.misfit("Checked", at, r)
	if n.multipleOf != nil && (ok || r != nil) {
		ok = n.validateMultiple(f, at, r) && ok
	}
	if n.minimum != nil && (ok || r != nil) {
		ok = n.validateMinimum(f, at, r) && ok
	}
	if n.maximum != nil && (ok || r != nil) {
		ok = n.validateMaximum(f, at, r) && ok
	}
	return ok
}

func (n *numberRules) validateMultiple(f float64, at *path, r *report) bool {
	b := n.multipleOf
	ok := b.fits || r != nil && n.misfit("MultipleOf", at, r)
	if b.value <= 0 {
		return r != nil && r.badFactor(at, b.value)
	}
	quotient := f / b.value
	if b.value < 1 {
		quotient = 1 / b.value * f
	}
	if !isIntegral(quotient) {
		return r != nil && r.invalid(at, f, "should be a multiple of %v", b.value)
	}
	return ok
}

func (n *numberRules) validateMinimum(f float64, at *path, r *report) bool {
	b := n.minimum
	ok := b.fits || r != nil && n.misfit("Minimum boundary", at, r)
	if f < b.value || f == b.value && n.exclusiveMinimum {
		return r != nil && r.tooSmall(at, f, b.value, n.exclusiveMinimum)
	}
	return ok
}

func (n *numberRules) validateMaximum(f float64, at *path, r *report) bool {
	b := n.maximum
	ok := b.fits || r != nil && n.misfit("Maximum boundary", at, r)
	if f > b.value || f == b.value && n.exclusiveMaximum {
		return r != nil && r.tooLarge(at, f, b.value, n.exclusiveMaximum)
	}
	return ok
}

// badFactor reports a multipleOf that no value can satisfy.
func (r *report) badFactor(at *path, factor any) bool {
	message := fmt.Sprintf("factor MultipleOf declared for %s must be positive: %v", at.name(), factor)
	r.findings = append(r.findings, finding{at.name(), message, field.Invalid(nil, factor, message)})
	return false
}

func (r *report) tooSmall(at *path, v, min any, exclusive bool) bool {
	if exclusive {
		return r.invalid(at, v, "should be greater than %v", min)
	}
	return r.invalid(at, v, "should be greater than or equal to %v", min)
}

func (r *report) tooLarge(at *path, v, max any, exclusive bool) bool {
	if exclusive {
		return r.invalid(at, v, "should be less than %v", max)
	}
	return r.invalid(at, v, "should be less than or equal to %v", max)
}

// isIntegral reports whether a float counts as an integer: it has no significant fraction, and its
// integer is exact.
func isIntegral(f float64) bool {
	const exact, epsilon = 1<<53 - 1, 1e-9
	if !(f >= -exact && f <= exact) {
		return false
	}
	whole := math.Round(f)
	return f == whole || whole != 0 && math.Abs(f-whole) < epsilon*math.Abs(whole)
}
