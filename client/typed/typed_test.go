package typed

import (
	"fmt"
	"math/rand"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// compare converts a random object of a type with both converters: to a tree, back, and back after
// random changes of the tree. It returns the number of objects that codecs have converted to a
// tree, and of trees that they have converted.
func compare(t reflect.Type, seed int64, changes int) (encoded, decoded int, err error) {
	obj := reflect.New(t).Interface()
	filler(seed).Fill(obj)
	want, wantErr := converter.ToUnstructured(obj)
	got, gotErr := ToTree(obj)
	if err := equal(got, want, gotErr, wantErr); err != nil {
		return 0, 0, fmt.Errorf("ToTree: %w", err)
	}
	if wantErr != nil {
		return 0, 0, nil
	}
	if _, ok := encode(obj); ok {
		encoded = 1
	}
	if decode(want, reflect.New(t).Interface(), false) {
		decoded = 1
	}
	m := mutation{r: rand.New(rand.NewSource(seed))}
	for range changes {
		if err := compareFrom(t, got); err != nil {
			return encoded, decoded, fmt.Errorf("after %q: %w", m.done, err)
		}
		if got, err = ToTree(obj); err != nil {
			return encoded, decoded, err
		}
		for range 1 + m.r.Intn(2) {
			m.apply(got)
		}
	}
	return encoded, decoded, nil
}

// compareFrom converts a tree to objects of a type with both converters.
func compareFrom(t reflect.Type, tree map[string]any) error {
	got, want := reflect.New(t).Interface(), reflect.New(t).Interface()
	for range 2 { // the second time into objects that have values
		if err := equalFrom(tree, got, want, FromTree, converter.FromUnstructured); err != nil {
			return fmt.Errorf("FromTree: %w", err)
		}
	}
	got, want = reflect.New(t).Interface(), reflect.New(t).Interface()
	if err := equalFrom(tree, got, want, FromTreeStrict, strictly); err != nil {
		return fmt.Errorf("FromTreeStrict: %w", err)
	}
	return nil
}

// strictly is the reference for FromTreeStrict.
func strictly(tree map[string]any, into any) error {
	return converter.FromUnstructuredWithValidation(tree, into, true)
}

// equalFrom compares what two functions decode. A tree with several errors yields any of them.
func equalFrom(tree map[string]any, got, want any, one, other func(map[string]any, any) error) (err error) {
	for range 100 {
		_, gotErr := attempt(func() (any, error) { return nil, one(tree, got) })
		_, wantErr := attempt(func() (any, error) { return nil, other(tree, want) })
		if err = equal(got, want, gotErr, wantErr); err == nil || gotErr == nil {
			return err
		}
	}
	return err
}

// TestAllTypes compares the converters for all types of client-go's scheme.
func TestAllTypes(t *testing.T) {
	r := seeded(t)
	all := types()
	if len(all) < 200 {
		t.Fatalf("only %d types are known", len(all))
	}
	tries, changes := 5, 6
	if testing.Short() {
		tries = 2
	}
	for _, typ := range all {
		var encoded, decoded int
		for range tries {
			seed := r.Int63()
			e, d, err := compare(typ, seed, changes)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", typ, seed, err)
			}
			encoded, decoded = encoded+e, decoded+d
		}
		for i := 0; i < 100 && (encoded == 0 || decoded == 0); i++ { // some have several odd leaves
			e, d, err := compare(typ, r.Int63(), 0)
			if err != nil {
				t.Fatal(err)
			}
			encoded, decoded = encoded+e, decoded+d
		}
		if (encoded == 0 || decoded == 0) && typ != reflect.TypeFor[metav1.InternalEvent]() { // has an interface with methods
			t.Errorf("%s: codecs have encoded %d objects, and decoded %d", typ, encoded, decoded)
		}
	}
}

// FuzzTypes compares the converters for a type and a seed.
func FuzzTypes(f *testing.F) {
	for i := range 20 {
		f.Add(uint(i*37), int64(i))
	}
	all := types()
	f.Fuzz(func(t *testing.T, i uint, seed int64) {
		typ := all[i%uint(len(all))]
		if _, _, err := compare(typ, seed, 4); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	})
}

// FuzzLeaves compares the converters for values of leaf types.
func FuzzLeaves(f *testing.F) {
	for _, text := range []string{"", "1", "1Gi", "2006-01-02T15:04:05Z", "1h", "eA==", `{"f:a":{}}`, `{"k:{\"a\":\"\\\\\"}":{"a":{},"b":{}}}`, "\xff"} {
		f.Add(text, int64(1), 1.5, false)
	}
	f.Fuzz(func(t *testing.T, text string, integer int64, number float64, nested bool) {
		for _, v := range []any{text, integer, number} {
			if nested {
				v = map[string]any{text: []any{v, map[string]any{"a": v}}}
			}
			for i := range reflect.TypeFor[sample]().NumField() {
				name := reflect.TypeFor[sample]().Field(i).Name
				if name == "Error" { // panics
					continue
				}
				if err := compareFrom(reflect.TypeFor[sample](), map[string]any{name: v}); err != nil {
					t.Errorf("%s: %#v: %v", name, v, err)
				}
			}
		}
		s := sample{Fields: metav1.NewFieldsV1(text), Port: intstr.FromString(text), Bytes: []byte(text), Raw: runtime.RawExtension{Raw: []byte(text)}, Large: uint64(integer)}
		want, wantErr := converter.ToUnstructured(&s)
		got, gotErr := ToTree(&s)
		if err := equal(got, want, gotErr, wantErr); err != nil {
			t.Error(err)
		}
	})
}

// TestOdd compares the converters where the arguments are not those of the server.
func TestOdd(t *testing.T) {
	for name, obj := range map[string]any{
		"struct":            corev1.Pod{},
		"nil pointer":       (*corev1.Pod)(nil),
		"unstructured":      &unstructured.Unstructured{Object: map[string]any{"a": int64(1)}},
		"map":               &map[string]string{"a": "b"},
		"text":              new(string),
		"overflow":          &sample{Large: 1 << 63},
		"unknown port":      &sample{Port: intstr.IntOrString{Type: 7}},
		"any":               &sample{Any: map[string]any{"a": int64(1)}},
		"dash":              &sample{Dash: "a"},
		"broken raw":        &sample{Raw: runtime.RawExtension{Raw: []byte("{")}},
		"shout":             &sample{Shout: "a", Shouts: []shout{"b"}, ShoutMap: map[string]shout{"c": "d"}},
		"method of value":   &sample{Values: map[string]valueMethod{"a": {}}},
		"method of pointer": &sample{Pointer: pointerMethod{"a"}, PointerList: []pointerMethod{{"b"}}},
		"no address":        &sample{PointerMap: map[string]pointerMethod{"a": {}}},
		"no address below":  &sample{HolderMap: map[string]holder{"a": {}}},
		"integer keys":      &sample{Integers: map[int]string{1: "a"}},
		"array":             &sample{Array: [2]int{1}},
		"complex":           &struct{ C complex64 }{1},
		"unexported":        &struct{ a, B string }{"a", "b"},
		"twice":             &sample{Text: "a", Embedded: Embedded{Other: "b"}},
		"embedded pointer":  &struct{ *metav1.ObjectMeta }{&metav1.ObjectMeta{Name: "a"}},
		"wide":              wide(t),
	} {
		t.Run(name, func(t *testing.T) {
			want, wantErr := attempt(func() (any, error) { return converter.ToUnstructured(obj) })
			got, gotErr := attempt(func() (any, error) { return ToTree(obj) })
			if err := equal(got, want, gotErr, wantErr); err != nil {
				t.Error(err)
			}
			if reflect.TypeOf(obj).Kind() != reflect.Pointer || reflect.ValueOf(obj).IsNil() {
				return
			}
			tree := map[string]any{"-": "a", "a": "b", "A": "c", "B": "c", "name": "d", "Any": []any{"a"}, "HolderMap": map[string]any{"a": map[string]any{"P": "x"}},
				"Shout": "a", "Shouts": []any{"b"}, "ShoutMap": map[string]any{"c": nil}, "Integers": map[string]any{}, "F099": "x", "F199": "x"}
			for name, functions := range map[string][2]func(map[string]any, any) error{
				"lenient": {FromTree, converter.FromUnstructured},
				"strict":  {FromTreeStrict, strictly},
			} {
				var results [2]any
				var errs [2]error
				for i, from := range functions {
					into := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
					results[i], errs[i] = attempt(func() (any, error) { return into, from(tree, into) })
				}
				if err := equal(results[0], results[1], errs[0], errs[1]); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// attempt calls a function, and returns a panic as an error.
func attempt(f func() (any, error)) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// TestAliases checks that an object and its tree have no memory in common but strings.
func TestAliases(t *testing.T) {
	r := seeded(t)
	for _, typ := range types() {
		seed := r.Int63()
		obj, same := reflect.New(typ).Interface(), reflect.New(typ).Interface()
		filler(seed).Fill(obj)
		filler(seed).Fill(same)
		tree, ok := encode(obj)
		if !ok {
			continue
		}
		again, _ := encode(obj)
		back := reflect.New(typ)
		if !decode(tree, back.Interface(), false) {
			continue
		}
		scramble(back.Elem())
		if !reflect.DeepEqual(tree, again) {
			t.Errorf("%s, seed %d: changes of the object have changed the tree it was decoded from", typ, seed)
		}
		overwrite(tree)
		if !reflect.DeepEqual(obj, same) {
			t.Errorf("%s, seed %d: changes of the tree have changed the object it was encoded from", typ, seed)
		}
	}
}

// overwrite changes all values of a tree in place.
func overwrite(tree any) {
	switch v := tree.(type) {
	case map[string]any:
		for key, element := range v {
			overwrite(element)
			v[key] = "overwritten"
		}
		v["more"] = "overwritten"
	case []any:
		for i, element := range v {
			overwrite(element)
			v[i] = "overwritten"
		}
	}
}

// scramble changes all that an object refers to, in place, except for values of type any.
func scramble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scramble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scramble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scramble(v.Index(i))
		}
		if v.CanSet() {
			v.SetLen(0)
		}
	case reflect.Map:
		if v.CanInterface() {
			v.Clear()
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("scrambled")
		}
	case reflect.Uint8:
		if v.CanSet() {
			v.SetUint(v.Uint() + 1)
		}
	}
}

// TestConcurrent compiles types in many goroutines at once.
func TestConcurrent(t *testing.T) {
	codecs.Clear()
	seed := seeded(t).Int63()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, typ := range []reflect.Type{reflect.TypeFor[corev1.Pod](), reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](), reflect.TypeFor[corev1.Node]()} {
				if _, _, err := compare(typ, seed, 2); err != nil {
					t.Errorf("%s, seed %d: %v", typ, seed, err)
				}
			}
		})
	}
	group.Wait()
}
