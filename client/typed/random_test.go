package typed

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

var converter = runtime.DefaultUnstructuredConverter

// types returns the struct types of client-go's scheme and of CustomResourceDefinitions, in the
// same order always.
func types() []reflect.Type {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	known := map[reflect.Type]bool{}
	for _, t := range s.AllKnownTypes() {
		known[t] = true
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b reflect.Type) int {
		return cmp.Compare(a.PkgPath()+a.Name(), b.PkgPath()+b.Name())
	})
}

// filler fills objects. Values of leaf types have any form that Go code may give them.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).MaxDepth(20).
		Funcs(fuzzer.Funcs(serializer.NewCodecFactory(scheme.Scheme))...).Funcs(
		func(m *metav1.TypeMeta, c randfill.Continue) { c.FillNoCustom(m) },
		func(m *metav1.ObjectMeta, c randfill.Continue) { c.FillNoCustom(m) },
		func(m *metav1.ManagedFieldsEntry, c randfill.Continue) { c.FillNoCustom(m) },
		func(t *metav1.Time, c randfill.Continue) { t.Time = randomTime(c) },
		func(t *metav1.MicroTime, c randfill.Continue) { t.Time = randomTime(c) },
		func(q *apiresource.Quantity, c randfill.Continue) { *q = randomQuantity(c) },
		func(i *intstr.IntOrString, c randfill.Continue) {
			*i = intstr.FromString(randomText(c))
			if c.Bool() {
				*i = intstr.FromInt32(c.Int31() - c.Int31())
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			*r = runtime.RawExtension{Raw: []byte(choose(c, `{"b": [1, 2.50, -0], "a": "<é>"}`, `{}`, `[]`, `"x"`, `1`, `1.0`, `null`, ` {"a":{"b":null}}`))}
			if c.Intn(5) == 0 {
				*r = runtime.RawExtension{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.String(3)}}}
			}
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(choose(c, "", "{}", `{"f:a":{}}`, `{"f:b": {}, "f:a":{".":{}}}`, "null", `{"f:é":{}}`, `{"v:\n":{}}`,
				`{"f:a":{"k:{\"b\":\"\\\\c\"}":{".":{},"f:b":{}},"f:d":{}},"":{}}`, `{"a":{},"a":{"b":{}}}`, `{"a":1}`))
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) {
			j.Raw = []byte(choose(c, `{"a":[1.5]}`, `1`, `null`, `"x"`))
		},
		func(j *apiextensionsv1beta1.JSON, c randfill.Continue) {
			j.Raw = []byte(choose(c, `{"a":[1.5]}`, `1`, `null`, `"x"`))
		},
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			if c.Intn(3) == 0 { // the type is recursive
				c.FillNoCustom(s)
			}
		},
		func(s *apiextensionsv1beta1.JSONSchemaProps, c randfill.Continue) {
			if c.Intn(3) == 0 {
				c.FillNoCustom(s)
			}
		},
		func(s *string, c randfill.Continue) { *s = randomText(c) },
	)
}

func choose(c randfill.Continue, texts ...string) string { return texts[c.Intn(len(texts))] }

func randomText(c randfill.Continue) string {
	switch c.Intn(50) {
	case 0:
		return choose(c, "\xff", "a\xc3", "<&>", "\u2028", "\"\\\n", "null", "1")
	case 1:
		return ""
	}
	return c.String(9)
}

func randomTime(c randfill.Continue) time.Time {
	switch t := time.Unix(int64(c.Int31()), int64(c.Int31n(1e9))); c.Intn(60) {
	case 0, 1, 2, 3, 4, 5:
		return time.Time{}
	case 6:
		return time.Time{}.Local()
	case 7, 8, 9:
		return t.UTC()
	case 10, 11, 12:
		return t.In(time.FixedZone("x", 5400))
	case 13:
		return time.Date(c.Intn(20000)-5000, 1, 2, 3, 4, 5, 6, time.UTC)
	default:
		return t
	}
}

func randomQuantity(c randfill.Continue) apiresource.Quantity {
	q := apiresource.MustParse(choose(c, "0", "1500m", "1.5", "0.1Gi", "1024Ki", "1e3", "12e6", "-3", "100n", "123456789012345678901234567890", "5"))
	switch c.Intn(4) {
	case 0:
		return *apiresource.NewQuantity(int64(c.Int31()), apiresource.BinarySI)
	case 1:
		return apiresource.Quantity{}
	case 2:
		q.Add(q)
	}
	return q
}

// equal compares what apimachinery's converter and this package return, and the errors. Where a
// conversion has failed, results are not compared: they depend on the order of maps.
func equal(got, want any, gotErr, wantErr error) error {
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || reflect.TypeOf(gotErr) != reflect.TypeOf(wantErr) {
		return fmt.Errorf("got error %v\n want %v", gotErr, wantErr)
	}
	if wantErr != nil && !runtime.IsStrictDecodingError(wantErr) {
		return nil
	}
	if !reflect.DeepEqual(got, want) || !apiequality.Semantic.DeepEqual(got, want) {
		return fmt.Errorf("got  %#v\nwant %#v", got, want)
	}
	return nil
}

// A mutation is a change of a random value in a tree.
type mutation struct {
	r    *rand.Rand
	done string
}

// apply changes one value below a tree.
func (m *mutation) apply(tree map[string]any) {
	m.done = ""
	m.object(tree)
}

func (m *mutation) object(tree map[string]any) {
	keys := slices.Sorted(maps.Keys(tree))
	if len(keys) == 0 || m.r.Intn(12) == 0 {
		m.done = "add"
		tree["unknown"] = m.value()
		return
	}
	key := keys[m.r.Intn(len(keys))]
	if m.r.Intn(3) > 0 && m.within(tree[key]) {
		return
	}
	switch m.r.Intn(5) {
	case 0:
		m.done = "delete " + key
		delete(tree, key)
	case 1:
		m.done = "case of " + key
		tree[strings.ToUpper(key)] = tree[key]
		if m.r.Intn(2) == 0 {
			delete(tree, key)
		}
	default:
		tree[key] = m.value()
		m.done = fmt.Sprintf("%s: %#v", key, tree[key])
	}
}

// within changes a value in an object or list.
func (m *mutation) within(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return false
		}
		m.object(v)
		return true
	case []any:
		if len(v) == 0 {
			return false
		}
		i := m.r.Intn(len(v))
		if !m.within(v[i]) {
			v[i] = m.value()
			m.done = fmt.Sprintf("%d: %#v", i, v[i])
		}
		return true
	}
	return false
}

// value returns a value of a random type, also of types that trees should not have.
func (m *mutation) value() any {
	values := []any{nil, "", "x", "1", "null", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.123456Z", "1.50Gi", " 1 ", "1\n", "1h30m", "eA==", "e A", "\xff", "<é>",
		int64(0), int64(1), int64(-1), int64(1) << 40, int64(math.MaxInt64), int64(math.MinInt64), 1.0, 1.5, 1e30, -1e30, math.Inf(1),
		true, false, map[string]any{}, []any{}, map[string]any(nil), []any(nil), map[string]any{"a": "b"}, []any{"a"}, []any{int64(1), nil},
		map[string]any{"a": nil}, []any{map[string]any{"a": int64(1)}}, map[string]any{"b": map[string]any{"a<": 1.5, "\xff": []any{}}},
		int32(5), uint8(5), float32(1.5), []string{"a"}, map[string]string{"a": "b"}, (*int64)(nil)}
	return values[m.r.Intn(len(values))]
}

// seeded returns a source of random numbers with the seed of the test.
func seeded(t testing.TB) *rand.Rand {
	return rand.New(rand.NewSource(int64(seeds.Of(t))))
}
