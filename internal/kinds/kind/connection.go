package kind

import (
	"net/http"
	"net/url"

	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Connection completes a connection whose parameters are of the type that P points to. read reads
// them; validate may be nil.
func Connection[P runtime.Object](version schema.GroupVersion, c resource.Connection, read func(from *Parameters, into P), validate func(options, _ P) field.ErrorList) resource.Connection {
	c.Kind = version.WithKind(Kind[P]{}.Name())
	m := NewModel(c.Kind, nil, validatorsOf(Kind[P]{Validate: validate}, nil), c.Kind)
	c.Model = m
	c.Decode = func(query url.Values, below string) (resource.Tree, error) {
		from, into := &Parameters{query: query, below: below}, New[P]()
		if read(from, into); from.err != nil {
			return nil, from.err
		}
		return m.TreeOf(into)
	}
	return c
}

// Proxy is a connection over which any request can be sent. path returns the field of the
// parameters with the path of that request.
func Proxy[P runtime.Object](version schema.GroupVersion, path func(options P) *string) resource.Connection {
	return Connection(version, resource.Connection{
		Name: "proxy", Below: true, Admitted: true,
		Methods: []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
		},
	}, func(from *Parameters, into P) { *path(into) = from.below }, nil)
}

// Parameters are the parameters of a request. They are converted as Kubernetes converts them: the
// first value of a name counts, except for lists. The first error is kept.
type Parameters struct {
	query url.Values
	below string
	err   error
}

// converted passes the values of a parameter to a function of apimachinery, if there are any.
func converted[T any](p *Parameters, name string, by func(*[]string, *T, conversion.Scope) error) (value T) {
	if values := p.query[name]; len(values) > 0 && p.err == nil {
		p.err = by(&values, &value, nil)
	}
	return value
}

// Text returns a parameter.
func (p *Parameters) Text(name string) string {
	return converted(p, name, runtime.Convert_Slice_string_To_string)
}

// Texts returns all values of a parameter.
func (p *Parameters) Texts(name string) []string { return p.query[name] }

// Is returns a parameter that is true or false.
func (p *Parameters) Is(name string) bool {
	return converted(p, name, runtime.Convert_Slice_string_To_bool)
}

// Optional returns a parameter, nil if there is none.
func (p *Parameters) Optional(name string) *string {
	if len(p.query[name]) == 0 {
		return nil
	}
	return &p.query[name][0]
}

// Number returns a parameter, nil if there is none.
func (p *Parameters) Number(name string) *int64 {
	return converted(p, name, runtime.Convert_Slice_string_To_Pointer_int64)
}

// Numbers returns all values of a parameter.
func (p *Parameters) Numbers(name string) []int32 {
	return converted(p, name, metav1.Convert_Slice_string_To_Slice_int32)
}

// Time returns a parameter, nil if there is none.
func (p *Parameters) Time(name string) *metav1.Time {
	return converted(p, name, metav1.Convert_Slice_string_To_Pointer_v1_Time)
}
