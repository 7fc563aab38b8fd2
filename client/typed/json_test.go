package typed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// compareJSON decodes a text with package json and with this package. It reports whether codecs
// have decoded it.
func compareJSON(t reflect.Type, text string) (parsed bool, err error) {
	got, want := reflect.New(t).Interface(), reflect.New(t).Interface()
	if parsed = parse([]byte(text), got, false); parsed {
		got = reflect.New(t).Interface()
		data := []byte(text)
		gotErr := FromJSON(data, got)
		clear(data) // the object must not share memory with it
		wantErr := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), want)
		if err := equal(got, want, gotErr, wantErr); err != nil {
			return parsed, fmt.Errorf("FromJSON: %w", err)
		}
	} else if !reflect.ValueOf(got).Elem().IsZero() { // FromJSON calls package json, with it
		return parsed, fmt.Errorf("what codecs could not decode is not zero: %#v", got)
	}
	got, want = reflect.New(t).Interface(), reflect.New(t).Interface()
	if parse([]byte(text), got, true) {
		strict, wantErr := kjson.UnmarshalStrict([]byte(text), want)
		if err := equal(got, want, nil, wantErr); err != nil || len(strict) > 0 {
			return parsed, fmt.Errorf("FromJSONStrict: %w, %v", err, strict)
		}
	}
	return parsed, nil
}

// compareTree decodes a text as a tree. It reports whether the reader has.
func compareTree(text string) (parsed bool, err error) {
	_, parsed = parseTree(reader{data: []byte(text)})
	var want map[string]any
	strict, wantErr := kjson.UnmarshalStrict([]byte(text), &want)
	if parsed && len(strict) > 0 {
		return parsed, fmt.Errorf("strict errors are missing: %v", strict)
	}
	got, gotStrict, gotErr := TreeStrict([]byte(text))
	if err := equal(got, want, gotErr, wantErr); err != nil || fmt.Sprint(gotStrict) != fmt.Sprint(strict) {
		return parsed, fmt.Errorf("TreeStrict: %w, %v, want %v", err, gotStrict, strict)
	}
	want = nil
	wantErr = kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &want)
	data := []byte(text)
	got, gotErr = Tree(data)
	clear(data)
	if err := equal(got, want, gotErr, wantErr); err != nil {
		return parsed, fmt.Errorf("Tree: %w", err)
	}
	got, gotErr = SharedTree([]byte(text))
	if err := equal(got, want, gotErr, wantErr); err != nil {
		return parsed, fmt.Errorf("SharedTree: %w", err)
	}
	return parsed, nil
}

// marshal returns the JSON of a random object of a type, "" if it has none.
func marshal(t reflect.Type, seed int64) string {
	obj := reflect.New(t).Interface()
	filler(seed).Fill(obj)
	text, err := attempt(func() (any, error) { return json.Marshal(obj) })
	if err != nil {
		return ""
	}
	return string(text.([]byte))
}

// distort changes a JSON text at a random place.
func distort(r *rand.Rand, text string) string {
	pieces := []string{"null", "true", "false", "0", "-0", "01", "1.0", "1e2", "1e999", "-1", "128", "4294967296", "9223372036854775808", "1.5", ".5", "5.", "1E+2", "+1",
		`""`, `"a"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\/\b\f"`, `"\x"`, `"\u00"`, "\"\xff\"", "\"\x01\"", `"é"`, `"1Gi"`, `"2006-01-02T15:04:05Z"`, `"eA=="`, `"eA"`,
		"{}", "[]", `{"a":1}`, `{"a":1,"a":2}`, `[1,2]`, `[null]`, `{"name":"x","name":"y"}`, "{", "}", "[", "]", ",", ":", `"`, " ", "\n\t\r ", "\v", "\u00a0", "tru", "nulll", "/**/"}
	piece := pieces[r.Intn(len(pieces))]
	starts := []int{0}
	for i := range len(text) {
		if strings.IndexByte(":,[{", text[i]) >= 0 {
			starts = append(starts, i+1)
		}
	}
	at := starts[r.Intn(len(starts))]
	rest := text[at:]
	switch r.Intn(5) {
	case 0: // instead of a value, if that is simple
		if end := strings.IndexAny(rest, ",]}"); end >= 0 {
			return text[:at] + piece + rest[end:]
		}
	case 1: // repeat a member or an item
		if end := strings.IndexByte(rest, ','); end >= 0 {
			return text[:at] + rest[:end+1] + rest
		}
	case 2: // another case, or another key
		if len(rest) > 2 {
			return text[:at+1] + strings.ToUpper(rest[1:2]) + rest[2:]
		}
	case 3: // the end is missing, or something follows it
		if r.Intn(2) == 0 {
			return text[:at]
		}
		return text + piece
	}
	return text[:at] + piece + rest
}

// TestJSON compares FromJSON and Tree with package json for all types of client-go's scheme.
func TestJSON(t *testing.T) {
	r := seeded(t)
	tries, changes := 3, 6
	if testing.Short() {
		tries = 2
	}
	for _, typ := range types() {
		parsed := 0
		for i := 0; i < tries || parsed == 0 && i < 100; i++ { // random objects may have texts that readers do not support
			seed := r.Int63()
			text := marshal(typ, seed)
			if text == "" {
				continue
			}
			if r.Intn(4) == 0 {
				var indented bytes.Buffer
				if err := json.Indent(&indented, []byte(text), " ", "\t"); err != nil {
					t.Fatal(err)
				}
				text = indented.String()
			}
			for change := range changes {
				ok, err := compareJSON(typ, text)
				if err == nil {
					_, err = compareTree(text)
				}
				if err != nil {
					t.Fatalf("%s, seed %d: %v\n%s", typ, seed, err, text)
				}
				if ok {
					parsed++
				}
				if change%3 == 2 {
					text = marshal(typ, seed)
				}
				text = distort(r, text)
			}
		}
		if parsed == 0 && typ != reflect.TypeFor[metav1.InternalEvent]() { // has an interface with methods
			t.Errorf("%s: codecs have parsed nothing", typ)
		}
	}
}

// TestJSONOfFields compares the decoders for each kind of field, with many values.
func TestJSONOfFields(t *testing.T) {
	values := []string{"null", "true", "false", "0", "-0", "-1", "1", "127", "128", "255", "256", "-129", "65536", "4294967295", "4294967296", "-2147483649", "9223372036854775807",
		"9223372036854775808", "18446744073709551615", "1.0", "1.5", "1e2", "1e999", "1e39", "01", "-", "1.", ".1", "1e", `""`, `"a"`, `"é\n\u00e9\"\\"`, `"\ud83d\ude00"`, `"eA=="`, `"eA\n=="`, `"e"`,
		`"2006-01-02T15:04:05Z"`, `"2006-01-02T15:04:05.123456Z"`, `"2006-01-02T15:04:05+02:00"`, `"1h30m"`, `"1.5Gi"`, `" 1 "`, `"fail"`, "{}", `{"a":"b"}`, `{"a":null}`, `{"a":1}`, `{"a":"eA=="}`,
		`{"a":["x",null]}`, `{"a":{}}`, `{"a":{"A":"b"}}`, `{"A":1,"B":2}`, `{"P":"x"}`, `{"a":{"P":"x"}}`, `{"1":"a"}`, `{"a":"b","a":"c"}`, "[]", "[null]", `["a"]`, `["a","b","c"]`, "[1,2]", "[1,2,3]", "[[]]", " [ 1 , 2 ] ", "{ }", "[ ]"}
	parsed := 0
	for i := range reflect.TypeFor[sample]().NumField() {
		f := reflect.TypeFor[sample]().Field(i)
		types := []reflect.Type{f.Type, reflect.PointerTo(f.Type), reflect.SliceOf(f.Type), reflect.MapOf(reflect.TypeFor[string](), f.Type), reflect.MapOf(reflect.TypeFor[shout](), f.Type)}
		for i, typ := range types {
			field := reflect.StructOf([]reflect.StructField{{Name: "F", Type: typ, Tag: `json:"f,omitempty"`}})
			for _, v := range values {
				switch i {
				case 2:
					v = "[" + v + "," + v + "]"
				case 3, 4:
					v = `{"k":` + v + `,"l":` + v + "}"
				}
				for _, text := range []string{`{"f":` + v + "}", `{"f":` + v + `,"f":` + v + "}", `{"F":` + v + "}"} {
					ok, err := compareJSON(field, text)
					if err != nil {
						t.Errorf("%s: %s: %v", typ, text, err)
					}
					if ok {
						parsed++
					}
				}
			}
		}
	}
	if parsed < 1000 {
		t.Errorf("only %d texts were parsed", parsed)
	}
}

// TestJSONOfOddTypes compares the decoders for types and values that codecs do not support.
func TestJSONOfOddTypes(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 300) + "1" + strings.Repeat("]}", 300)
	for name, typ := range map[string]reflect.Type{
		"sample": reflect.TypeFor[sample](), // has two fields of one name
		"dash":   reflect.TypeFor[struct{ A, Dash string }](),
		"ignored": reflect.TypeFor[struct {
			Dash string `json:"-"`
		}](),
		"as a text": reflect.TypeFor[struct {
			A int `json:"a,string"`
		}](),
		"text method": reflect.TypeFor[struct {
			A textMethod `json:"a"`
		}](),
		"text method keys": reflect.TypeFor[struct {
			A map[textMethod]string `json:"a"`
		}](),
		"unexported":       reflect.TypeFor[struct{ a, B string }](),
		"embedded pointer": reflect.TypeFor[struct{ *metav1.ObjectMeta }](),
		"interface": reflect.TypeFor[struct {
			A fmt.Stringer `json:"a"`
		}](),
		"any": reflect.TypeFor[struct {
			A any `json:"a"`
		}](),
		"method": reflect.TypeFor[pointerMethod](),
		"map":    reflect.TypeFor[map[string]string](),
		"wide":   reflect.TypeOf(wide(t)).Elem(),
	} {
		for _, text := range []string{
			`{"-":"x","Dash":"y","A":1,"a":"b","B":"c"}`, `{"a":"5"}`, `{"a":5}`, `{"a":{"x":"y"}}`, `{"a":null}`, `{"F099":"x"}`, `{"name":"x"}`, `{"a":` + deep + `}`, deep, "null", "[]", "", " ", "{} {}",
		} {
			if _, err := compareJSON(typ, text); err != nil {
				t.Errorf("%s: %.100s: %v", name, text, err)
			}
			if _, err := compareTree(text); err != nil {
				t.Errorf("%.100s: %v", text, err)
			}
		}
	}
	var pod corev1.Pod
	pod.Name = "before"
	if err := FromJSON([]byte(`{"metadata":{"namespace":"a"}}`), &pod); err != nil || pod.Name != "before" || pod.Namespace != "a" {
		t.Errorf("FromJSON into an object with values: %v, %v", pod.ObjectMeta, err)
	}
	if err := FromJSON([]byte("{}"), nil); err == nil {
		t.Error("FromJSON into nil succeeds")
	}
}

// textMethod is a string with a method that decodes it.
type textMethod string

func (m *textMethod) UnmarshalText(text []byte) error {
	*m = textMethod("text " + string(text))
	return nil
}

// FuzzJSON compares the decoders for any text.
func FuzzJSON(f *testing.F) {
	r := rand.New(rand.NewSource(1))
	for i := range 20 {
		text := marshal(reflect.TypeFor[corev1.Pod](), int64(i))
		f.Add(text)
		f.Add(distort(r, text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, typ := range []reflect.Type{reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.ConfigMap]()} {
			if _, err := compareJSON(typ, text); err != nil {
				t.Error(err)
			}
		}
		if _, err := compareTree(text); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkJSON compares the decoders.
func BenchmarkJSON(b *testing.B) {
	for name, c := range map[string]struct {
		yaml string
		typ  reflect.Type
	}{"Pod": {podYAML, reflect.TypeFor[corev1.Pod]()}, "ConfigMap": {configMapYAML, reflect.TypeFor[corev1.ConfigMap]()}} {
		text, err := yaml.YAMLToJSON([]byte(c.yaml))
		if err != nil {
			b.Fatal(err)
		}
		for decoder, decode := range map[string]func([]byte) error{
			"struct/typed": func(data []byte) error { return FromJSON(data, reflect.New(c.typ).Interface()) },
			"struct/json": func(data []byte) error {
				return kjson.UnmarshalCaseSensitivePreserveInts(data, reflect.New(c.typ).Interface())
			},
			"tree/typed": func(data []byte) error {
				_, err := Tree(data)
				return err
			},
			"tree/shared": func(data []byte) error {
				_, err := SharedTree(data)
				return err
			},
			"tree/json": func(data []byte) error {
				var tree map[string]any
				return kjson.UnmarshalCaseSensitivePreserveInts(data, &tree)
			},
		} {
			b.Run(name+"/"+decoder, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if err := decode(text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
