package convert_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/convert"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// A ship in two versions, and a hub that knows both.
type (
	shipV1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Masts             []mastV1          `json:"masts,omitempty"`
		Crew              map[string]rankV1 `json:"crew,omitempty"`
	}
	mastV1 struct {
		Sails *int32 `json:"sails,omitempty"`
		Wood  string `json:"wood,omitempty"`
	}
	rankV1 string

	shipV2 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Masts             []mastV2          `json:"masts,omitempty"`
		Crew              map[string]rankV2 `json:"crew,omitempty"`
	}
	mastV2 struct {
		Sails    *int32 `json:"sails,omitempty"`
		Material string `json:"material,omitempty"`
	}
	rankV2 string

	shipHub struct {
		TypeMeta   metav1.TypeMeta
		ObjectMeta metav1.ObjectMeta
		Masts      []mastV2
		Crew       map[string]rankV2
	}

	shipV1List struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []shipV1 `json:"items"`
	}
	shipV2List struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []shipV2 `json:"items"`
	}
)

func (in *shipV1) DeepCopyObject() runtime.Object     { out := *in; return &out }
func (in *shipV2) DeepCopyObject() runtime.Object     { out := *in; return &out }
func (in *shipV1List) DeepCopyObject() runtime.Object { out := *in; return &out }
func (in *shipV2List) DeepCopyObject() runtime.Object { out := *in; return &out }

var (
	sea1 = schema.GroupVersion{Group: "sea", Version: "v1"}
	sea2 = schema.GroupVersion{Group: "sea", Version: "v2"}
)

func seaScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(sea2.WithKind("Ship"), &shipV2{})
	scheme.AddKnownTypeWithName(sea2.WithKind("ShipList"), &shipV2List{})
	scheme.AddKnownTypeWithName(sea1.WithKind("Ship"), &shipV1{})
	scheme.AddKnownTypeWithName(sea1.WithKind("ShipList"), &shipV1List{})
	scheme.AddUnversionedTypes(sea1, &metav1.Status{})
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.List{})
	return scheme
}

var errWood = errors.New("wood that floats is wanted")

func seaConverter(t testing.TB) *convert.Converter {
	t.Helper()
	c, err := convert.New(seaScheme(),
		convert.Spoke[shipHub, shipV1](nil, nil),
		convert.Spoke[shipHub, shipV2](nil, nil),
		convert.Rules(
			convert.Func(func(in *mastV1, out *mastV2) error {
				if in.Wood == "ebony" {
					return errWood
				}
				out.Material = in.Wood
				return nil
			}),
			convert.Func(func(in *mastV2, out *mastV1) error { out.Wood = in.Material; return nil }),
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTo(t *testing.T) {
	c := seaConverter(t)
	three := int32(3)
	old := func(name string) *shipV1 {
		return &shipV1{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}},
			Masts:      []mastV1{{Sails: &three, Wood: "oak"}, {}},
			Crew:       map[string]rankV1{"ahab": "captain"},
		}
	}
	fresh := func(name string) *shipV2 {
		return &shipV2{
			TypeMeta:   metav1.TypeMeta{APIVersion: "sea/v2", Kind: "Ship"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}},
			Masts:      []mastV2{{Sails: &three, Material: "oak"}, {}},
			Crew:       map[string]rankV2{"ahab": "captain"},
		}
	}
	withoutKind := func(s *shipV2) shipV2 { s.TypeMeta = metav1.TypeMeta{}; return *s }
	remaining := int64(4)
	for _, test := range []struct {
		name   string
		in     runtime.Object
		target schema.GroupVersion
		want   runtime.Object
		err    string
	}{
		{name: "an object", in: old("pequod"), target: sea2, want: fresh("pequod")},
		{name: "no target", in: old("pequod"), want: fresh("pequod")},
		{name: "empty stays empty, nil stays nil", in: &shipV1{Masts: []mastV1{}}, target: sea2,
			want: &shipV2{TypeMeta: metav1.TypeMeta{APIVersion: "sea/v2", Kind: "Ship"}, Masts: []mastV2{}}},
		{name: "a list", in: &shipV1List{
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c", RemainingItemCount: &remaining},
			Items:    []shipV1{*old("pequod"), *old("rachel")},
		}, want: &shipV2List{
			TypeMeta: metav1.TypeMeta{APIVersion: "sea/v2", Kind: "ShipList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c", RemainingItemCount: &remaining},
			Items:    []shipV2{withoutKind(fresh("pequod")), withoutKind(fresh("rachel"))},
		}},
		{name: "a list of anything", in: &corev1.List{Items: []runtime.RawExtension{{Object: old("pequod")}}}, target: sea2,
			want: &corev1.List{Items: []runtime.RawExtension{{Object: fresh("pequod")}}}},
		{name: "what has one version", in: &corev1.ConfigMap{Data: map[string]string{"a": "b"}}, target: corev1.SchemeGroupVersion,
			want: &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "b"}}},
		{name: "what has none", in: &metav1.Status{Message: "m"}, target: sea2, want: &metav1.Status{Message: "m"}},

		{name: "an unknown version", in: old("x"), target: schema.GroupVersion{Group: "sea", Version: "v3"},
			err: "not known to the converter: Ship has no version sea/v3, but sea/v1, sea/v2"},
		{name: "an unknown version of a list", in: &shipV1List{}, target: schema.GroupVersion{Group: "air", Version: "v1"},
			err: "not known to the converter: ShipList has no version air/v1, but sea/v1, sea/v2"},
		{name: "the wrong version of the only one", in: &corev1.ConfigMap{}, target: sea1,
			err: "not known to the converter: ConfigMap has no version sea/v1, but v1"},
		{name: "an unknown type", in: &corev1.Pod{}, target: sea1, err: "not known to the converter: *v1.Pod"},
		{name: "nil", in: (*shipV1)(nil), target: sea1, err: "not known to the converter: *convert_test.shipV1 is not an object"},
		{name: "an error within", in: &shipV1{Masts: []mastV1{{}, {Wood: "ebony"}}}, target: sea2, err: "masts[1]: " + errWood.Error()},
		{name: "an error within a list", in: &shipV1List{Items: []shipV1{{Masts: []mastV1{{Wood: "ebony"}}}}}, target: sea2,
			err: "items[0].masts[0]: " + errWood.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.To(test.in, test.target)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error is %v, want %s", err, test.err)
				}
				if unknown := strings.HasPrefix(test.err, convert.ErrUnknown.Error()); errors.Is(err, convert.ErrUnknown) != unknown || !unknown && !errors.Is(err, errWood) {
					t.Errorf("%v wraps the wrong error", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConvertInto(t *testing.T) {
	c := seaConverter(t)
	into := &shipV2{TypeMeta: metav1.TypeMeta{APIVersion: "sea/v2", Kind: "Ship"}, Crew: map[string]rankV2{"gone": "x"}}
	if err := c.Convert(&shipV1{Masts: []mastV1{{Wood: "oak"}}}, into, nil); err != nil {
		t.Fatal(err)
	}
	want := &shipV2{TypeMeta: metav1.TypeMeta{APIVersion: "sea/v2", Kind: "Ship"}, Masts: []mastV2{{Material: "oak"}}}
	if diff := cmp.Diff(want, into); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][2]any{{&shipV1{}, &corev1.Pod{}}, {shipV1{}, into}, {&shipV1{}, (*shipV2)(nil)}, {nil, into}, {&shipV1{Masts: []mastV1{{Wood: "ebony"}}}, into}} {
		if err := c.Convert(bad[0], bad[1], nil); err == nil {
			t.Errorf("%T into %T is no error", bad[0], bad[1])
		}
	}
	if diff := cmp.Diff(want, into); diff != "" {
		t.Errorf("an error has changed the target: %s", diff)
	}
}

// A converter takes the place of a scheme in the codecs of apimachinery.
func TestCodec(t *testing.T) {
	scheme := seaScheme()
	plain := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	codec := versioning.NewCodec(plain, plain, seaConverter(t), scheme, scheme, scheme, sea1, sea2, "sea")
	obj, _, err := codec.Decode([]byte(`{"apiVersion":"sea/v1","kind":"Ship","metadata":{"name":"pequod"},"masts":[{"wood":"oak"}]}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ship, ok := obj.(*shipV2); !ok || ship.Masts[0].Material != "oak" {
		t.Errorf("decoded %#v", obj)
	}
	text, err := runtime.Encode(codec, obj)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), `{"kind":"Ship","apiVersion":"sea/v1","metadata":{"name":"pequod"},"masts":[{"wood":"oak"}]}`+"\n"; got != want {
		t.Errorf("encoded %s", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		rules []convert.Rule
		want  string
	}{
		{"a field without a counterpart", []convert.Rule{convert.Spoke[shipHub, shipV1](nil, nil)},
			"convert_test.mastV1.Wood has no counterpart in convert_test.mastV2"},
		{"a type that the scheme does not know", []convert.Rule{convert.Spoke[shipHub, corev1.Pod](nil, nil)},
			"v1.Pod is not known to the scheme"},
		{"a version twice", []convert.Rule{convert.Spoke[shipHub, shipV2](nil, nil), convert.Spoke[shipHub, shipV2](nil, nil)},
			"convert_test.shipV2 is registered twice"},
	} {
		_, err := convert.New(seaScheme(), test.rules...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %s", test.name, err, test.want)
		}
	}
}

// Types may contain themselves.
func TestRecursion(t *testing.T) {
	type treeA struct {
		Name string
		Kids []*treeB
	}
	convertTree := convert.Names[treeA, treeC]()
	out := treeC{}
	if err := convertTree(&treeA{Name: "root", Kids: []*treeB{{Name: "x", Kids: []*treeB{{Name: "y"}, nil}}}}, &out); err != nil {
		t.Fatal(err)
	}
	if want := (treeC{Name: "root", Kids: []*treeC{{Name: "x", Kids: []*treeC{{Name: "y"}, nil}}}}); !cmp.Equal(out, want) {
		t.Errorf("got %+v", out)
	}
}

type (
	treeB struct {
		Name string
		Kids []*treeB
	}
	treeC struct {
		Name string
		Kids []*treeC
	}
)

func BenchmarkTo(b *testing.B) {
	c := seaConverter(b)
	three := int32(3)
	in := &shipV1{
		ObjectMeta: metav1.ObjectMeta{Name: "pequod", Labels: map[string]string{"a": "b"}},
		Masts:      []mastV1{{Sails: &three, Wood: "oak"}, {Sails: &three, Wood: "pine"}},
		Crew:       map[string]rankV1{"ahab": "captain", "ishmael": "sailor"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.To(in, sea2); err != nil {
			b.Fatal(err)
		}
	}
}
