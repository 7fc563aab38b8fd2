package kind

import (
	"github.com/kapok-dev/kapok/convert"

	"k8s.io/apimachinery/pkg/runtime"
)

// Same registers a version whose fields have the same names as those of the hub.
func Same[Hub, T any, P interface {
	*T
	runtime.Object
}]() convert.Rule {
	return convert.Spoke[Hub, T, P](nil, nil)
}

// nothing is the conversion of fields that the other version does not have: they are dropped.
func nothing[A, B any](*A, *B) error { return nil }

// Lossy registers conversions between A and B that drop the fields which the other type lacks.
func Lossy[A, B any]() convert.Rule {
	return Both(nothing[A, B], nothing[B, A])
}

// Both registers a conversion for each direction.
func Both[A, B any](to func(*A, *B) error, from func(*B, *A) error) convert.Rule {
	return convert.Rules(convert.Func(to), convert.Func(from))
}

// Clone returns a pointer to a shallow copy, nil for nil.
func Clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// Value returns what p points to, the zero value if p is nil.
func Value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
