package typed

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sample has a field of each kind. Its zero values are encoded where omitempty is not set.
type sample struct {
	Text     string
	Texts    []string
	TextMap  map[string]string
	Bool     bool                `json:",omitempty"`
	Int      int                 `json:",omitempty"`
	Int8     int8                `json:",omitempty"`
	Int16    int16               `json:",omitempty"`
	Int32    int32               `json:",omitempty"`
	Uint8    uint8               `json:",omitempty"`
	Uint16   uint16              `json:",omitempty"`
	Uint32   uint32              `json:",omitempty"`
	Large    uint64              `json:",omitempty"`
	Float32  float32             `json:",omitempty"`
	Float64  float64             `json:",omitempty"`
	Bytes    []byte              `json:",omitempty"`
	BytesMap map[string][]byte   `json:",omitempty"`
	Lists    map[string][]string `json:",omitempty"`
	Pointers []*int64            `json:",omitempty"`
	Double   **string            `json:",omitempty"`
	Any      any                 `json:",omitempty"`
	AnyMap   map[string]any      `json:",omitempty"`
	Error    error               `json:",omitempty"`
	Dash     string              `json:"-"`
	Array    [2]int              `json:",omitzero"`
	Integers map[int]string      `json:",omitempty"`

	Time        metav1.Time
	ZeroTime    metav1.Time                  `json:",omitzero"`
	ZeroPointer *metav1.Time                 `json:",omitzero"`
	Zero        struct{ A, B float64 }       `json:",omitempty,omitzero"`
	MicroTime   metav1.MicroTime             `json:",omitempty"`
	Duration    metav1.Duration              `json:",omitempty"`
	Quantity    resource.Quantity            `json:",omitempty"`
	Quantities  map[string]resource.Quantity `json:",omitempty"`
	Port        intstr.IntOrString           `json:",omitempty"`
	Raw         runtime.RawExtension         `json:",omitempty"`
	Fields      *metav1.FieldsV1             `json:",omitempty"`
	JSON        *apiextensionsv1.JSON        `json:",omitempty"`
	Message     json.RawMessage              `json:",omitempty"`

	Shout       shout                    `json:",omitempty"`
	Shouts      []shout                  `json:",omitempty"`
	ShoutMap    map[string]shout         `json:",omitempty"`
	Values      map[string]valueMethod   `json:",omitempty"`
	Pointer     pointerMethod            `json:",omitempty"`
	PointerList []pointerMethod          `json:",omitempty"`
	PointerMap  map[string]pointerMethod `json:",omitempty"`
	HolderMap   map[string]holder        `json:",omitempty"`

	Embedded
}

// Embedded is embedded in sample, and has a field with a name that sample has too.
type Embedded struct {
	Inner string
	Other string `json:"Text,omitempty"`
}

// shout is a string with a method that encodes it, except as a field of a struct.
type shout string

func (s shout) MarshalJSON() ([]byte, error) { return json.Marshal(string(s) + "!") }

type valueMethod struct{}

func (valueMethod) MarshalJSON() ([]byte, error) { return []byte(` {"a":1}`), nil }

// pointerMethod has a method that only values with an address have.
type pointerMethod struct{ A string }

func (p *pointerMethod) MarshalJSON() ([]byte, error) { return json.Marshal([]string{p.A}) }

func (p *pointerMethod) UnmarshalJSON(data []byte) error {
	if string(data) == `"fail"` {
		return fmt.Errorf("failed")
	}
	p.A += string(data)
	return nil
}

type holder struct{ P pointerMethod }

// wide returns a struct with more fields than a plan marks in its words.
func wide(t *testing.T) any {
	var fields []reflect.StructField
	for i := range 200 {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%03d", i), Type: reflect.TypeFor[string](), Tag: `json:",omitempty"`})
	}
	v := reflect.New(reflect.StructOf(fields))
	for _, i := range []int{0, 63, 64, 127, 128, 199} {
		v.Elem().Field(i).SetString(fmt.Sprint(i))
	}
	if tree, ok := encode(v.Interface()); !ok || len(tree) != 6 {
		t.Errorf("encoded to %v", tree)
	}
	return v.Interface()
}
