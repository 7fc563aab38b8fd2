package kinds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct{ plural, data, want string }{
		{"deployments", `{"spec":{"replicas":"x"}}`, `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`},
		{"configmaps", `{"data":{"a":1}}`, `json: cannot unmarshal number into Go struct field ConfigMap.data of type string`},
		{"pods", `{"spec":{"containers":{}}}`, `json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container`},
		{"pods", `{"metadata":`, `couldn't get version/kind; json parse error: unexpected end of JSON input`},
		{"pods", `[]`, `couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`},
		{"secrets", `{"data":{"a":"%"}}`, `illegal base64 data at input byte 0`},
		{"pods", `{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}`, "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
	} {
		for _, strict := range []*[]error{nil, {}} {
			tree, err := kindtest.Definition(t, c.plural).Storage.Model.Decode([]byte(c.data), strict)
			if err == nil {
				t.Errorf("%s: decoded to %v", c.data, tree)
			} else if got := err.Error(); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.data, got, c.want)
			}
		}
	}
}

func TestStrictErrors(t *testing.T) {
	data := `{"kind":"Pod","kind":"Pod","foo":1,"spec":{"Containers":[],"containers":[{"name":"a","nam":"b"}],"nodeName":"a","nodeName":"b"}}`
	want := []string{`duplicate field "kind"`, `unknown field "foo"`, `unknown field "spec.Containers"`, `unknown field "spec.containers[0].nam"`, `duplicate field "spec.nodeName"`}
	model := kindtest.Definition(t, "pods").Storage.Model
	var strict []error
	tree, err := model.Decode([]byte(data), &strict)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(strict); got != fmt.Sprint(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if kind.Text(tree, "spec", "nodeName") != "b" || tree["foo"] != nil {
		t.Errorf("decoded to %v", tree)
	}

	var dropped []error
	tree, err = model.Normalise(kindtest.Parse(t, `{foo: 1, spec: {Containers: [], containers: [{name: a, nam: b}]}}`), &dropped)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(dropped), `[unknown field "foo" unknown field "spec.Containers" unknown field "spec.containers[0].nam"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if kind.Text(tree, "kind") != "Pod" || kind.Text(tree, "spec", "dnsPolicy") != "ClusterFirst" {
		t.Errorf("normalised to %v", tree)
	}
	if _, err := model.Normalise(kindtest.Parse(t, `{spec: {nodeName: 1}}`), nil); err == nil {
		t.Error("a number is accepted as a name")
	}
}

// filler fills objects with values that survive JSON: whole seconds, canonical quantities.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).MaxDepth(20).Funcs(
		func(t *metav1.Time, c randfill.Continue) {
			t.Time = kindtest.Now.Add(time.Duration(c.Int31()) * time.Second)
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			t.Time = kindtest.Now.Add(time.Duration(c.Int31()) * time.Microsecond)
		},
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = *apiresource.NewQuantity(int64(c.Int31()), apiresource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(c.Int31()) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawBytes([]byte(`{"f:a":{}}`)) },
		func(m *metav1.TypeMeta, c randfill.Continue) {},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"a":{}}`) },
		func(s *corev1.Secret, c randfill.Continue) { c.FillNoCustom(s); s.StringData = nil },
	)
}

// TestRoundTrip checks that decoding and normalising a decoded object does not change it.
func TestRoundTrip(t *testing.T) {
	seed := int64(seeds.Of(t))
	fill := filler(seed)
	for _, d := range kinds.Definitions() {
		if d.Action != nil {
			continue // not stored
		}
		model := d.Storage.Model
		for range 20 {
			obj := model.New()
			fill.Fill(obj)
			data, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			var strict []error
			first, err := model.Decode(data, &strict)
			if err != nil || len(strict) > 0 {
				t.Fatalf("%s: %v %v\n%s", d.Plural, err, strict, data)
			}
			again, err := json.Marshal(first)
			if err != nil {
				t.Fatal(err)
			}
			second, err := model.Decode(again, &strict)
			if err != nil || len(strict) > 0 {
				t.Fatalf("%s: %v %v\n%s", d.Plural, err, strict, again)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Fatalf("%s: decoded twice:\n%s", d.Plural, diff)
			}
			third, err := model.Normalise(runtime.DeepCopyJSON(first), &strict)
			if err != nil || len(strict) > 0 {
				t.Fatalf("%s: %v %v", d.Plural, err, strict)
			}
			if diff := cmp.Diff(first, third); diff != "" {
				t.Fatalf("%s: normalised:\n%s", d.Plural, diff)
			}
		}
	}
}

// protobufFiller fills objects with values that only protobuf can carry: fractions of seconds,
// quantities in any notation, text that is not UTF-8.
func protobufFiller(seed int64) *randfill.Filler {
	return filler(seed).Funcs(
		func(t *metav1.Time, c randfill.Continue) { t.Time = time.Unix(int64(c.Int31()), int64(c.Int31n(1e9))) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			t.Time = time.Unix(int64(c.Int31()), int64(c.Int31n(1e9)))
		},
		func(q *apiresource.Quantity, c randfill.Continue) {
			texts := []string{"0", "1500m", "1.5", "0.1Gi", "1024Ki", "1e3", "12e6", "-3", "100n"}
			*q = apiresource.MustParse(texts[c.Intn(len(texts))])
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromInt32(c.Int31()); c.Bool() {
				*i = intstr.FromString(c.String(9))
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"b": [1, 2.50], "a": "<é>"}`) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawBytes([]byte(`{"f:b": {}, "f:a":{".":{}}}`)) },
		func(s *string, c randfill.Continue) {
			if *s = c.String(9); c.Intn(500) == 0 {
				*s += []string{"\xff", "\xc3", "<&>", "\u2028"}[c.Intn(4)]
			}
		},
	)
}

// TestTreeOf compares the trees of protobuf objects with those of the same objects in JSON.
func TestTreeOf(t *testing.T) {
	seed := int64(seeds.Of(t))
	fill := protobufFiller(seed)
	for _, d := range kinds.Definitions() {
		var model resource.Model
		if d.Action != nil {
			model = d.Action.Model
		} else {
			model = d.Storage.Model
		}
		typed, ok := model.(resource.TypedModel)
		if !ok {
			t.Errorf("%s has no Go type", d.Plural)
			continue
		}
		for range 30 {
			obj := model.New()
			fill.Fill(obj)
			message, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				t.Fatalf("%s: %v", d.Plural, err)
			}
			in := model.New()
			if err := in.(interface{ Unmarshal([]byte) error }).Unmarshal(message); err != nil {
				t.Fatalf("%s: %v", d.Plural, err)
			}
			data, err := json.Marshal(in)
			if err != nil {
				t.Fatalf("%s: %v", d.Plural, err)
			}
			want, err := model.Decode(data, nil)
			if err != nil {
				t.Fatalf("%s: %v", d.Plural, err)
			}
			got, err := typed.TreeOf(in)
			if err != nil {
				t.Fatalf("%s: %v", d.Plural, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s:\n%s", d.Plural, diff)
			}
		}
	}
	configMap := kindtest.Definition(t, "configmaps").Storage.Model.(resource.TypedModel)
	tree, err := configMap.TreeOf(&corev1.ConfigMap{Data: map[string]string{"a\xff": "b\xfe"}})
	if err != nil || kind.Text(tree, "data", "a\ufffd") != "b\ufffd" {
		t.Errorf("text that is not UTF-8: %v, %v", tree, err)
	}
	if _, err := configMap.TreeOf(&corev1.Secret{}); err == nil {
		t.Error("a Secret is accepted as a ConfigMap")
	}
}

// TestOldIsOnlyRead runs the strategies on random objects, and checks that they neither change old
// nor share memory with it.
func TestOldIsOnlyRead(t *testing.T) {
	seed := int64(seeds.Of(t))
	fill := filler(seed)
	for _, d := range kinds.Definitions() {
		if d.Action != nil {
			continue // not stored
		}
		random := func() resource.Tree {
			obj := d.Storage.Model.New()
			fill.Fill(obj)
			tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			return tree
		}
		hooks := map[string]func(obj, old resource.Tree){"": d.Strategy.PrepareUpdate}
		for _, s := range d.Storage.Subresources {
			if s.Prepare == nil {
				continue
			}
			hooks[s.Name] = s.Prepare
		}
		for _, name := range slices.Sorted(maps.Keys(hooks)) {
			obj, old := random(), random()
			before := runtime.DeepCopyJSON(old)
			hooks[name](obj, old)
			scramble(obj)
			if !reflect.DeepEqual(old, before) {
				t.Errorf("%s/%s: old has changed: %s", d.Plural, name, cmp.Diff(before, old))
			}
		}
	}
}

func scramble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			scramble(v[k])
			v[k] = "scrambled"
		}
	case []any:
		for i := range v {
			scramble(v[i])
			v[i] = "scrambled"
		}
	}
}

func TestApply(t *testing.T) {
	for _, c := range []struct{ plural, live, applied, want string }{
		{"configmaps", `{data: {a: "1"}}`, `{data: {b: "2"}}`, `{data: {a: "1", b: "2"}}`},
		{"deployments",
			`{spec: {template: {spec: {containers: [{name: a, image: v1}, {name: b, image: v2}]}}}}`,
			`{spec: {template: {spec: {containers: [{name: b, image: v3}]}}}}`,
			`{spec: {template: {spec: {containers: [{name: a, image: v1}, {name: b, image: v3}]}}}}`},
		{"jobs", `{spec: {completions: 3}}`, `{spec: {parallelism: 2}}`, `{spec: {completions: 3, parallelism: 2}}`},
		{"leases", `{spec: {holderIdentity: a}}`, `{spec: {holderIdentity: b}}`, `{spec: {holderIdentity: b}}`},
	} {
		d := kindtest.Definition(t, c.plural)
		types, err := d.Storage.Model.FieldTypes()
		if err != nil {
			t.Fatal(err)
		}
		m, err := fields.New(fields.Options{Kind: d.GroupVersionKind(d.Storage), Type: types})
		if err != nil {
			t.Fatal(err)
		}
		object := func(text string) resource.Tree {
			u := &unstructured.Unstructured{Object: kindtest.Parse(t, text)}
			u.SetGroupVersionKind(d.GroupVersionKind(d.Storage))
			return u.Object
		}
		got, err := m.Apply(object(c.live), object(c.applied), "a", true)
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(got, "metadata")
		if diff := cmp.Diff(object(c.want), got); diff != "" {
			t.Errorf("%s: %s", c.plural, diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("pods", `{"spec":{"containers":[{"name":"a","image":"b:c@sha256:d"}]}}`)
	f.Add("jobs", `{"spec":{"completionMode":"Indexed","successPolicy":{"rules":[{"succeededIndexes":"1-3,5"}]}}}`)
	f.Add("events", `{"eventTime":"2026-01-01T00:00:00.000001Z"}`)
	f.Add("deployments", `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"%"}}}}`)
	f.Fuzz(func(t *testing.T, plural, data string) {
		for _, d := range kinds.Definitions() {
			if d.Action != nil {
				continue // not stored
			}
			if d.Plural != plural {
				continue
			}
			tree, err := d.Storage.Model.Decode([]byte(data), nil)
			if err != nil {
				return
			}
			d.Strategy.PrepareCreate(tree)
			d.Storage.Model.Validate(t.Context(), tree, nil, "")
			d.Storage.Model.Validate(t.Context(), tree, tree, "")
			for _, s := range d.Storage.Subresources {
				d.Storage.Model.Validate(t.Context(), tree, tree, s.Name)
			}
			d.Storage.Cells(tree, kindtest.Now)
		}
	})
}

var benchmarks = []struct{ plural, data string }{
	{"configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b","labels":{"app":"a"}},"data":{"key":"` + strings.Repeat("value ", 200) + `"}}`},
	{"pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"nginx:1.27",
		"ports":[{"containerPort":80}],"env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},
		"livenessProbe":{"httpGet":{"path":"/","port":80}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","configMap":{"name":"c"}}]}}`},
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.plural, func(b *testing.B) {
			model := kindtest.Definition(b, c.plural).Storage.Model
			b.ReportAllocs()
			for b.Loop() {
				if _, err := model.Decode([]byte(c.data), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTreeOf is BenchmarkDecode for protobuf.
func BenchmarkTreeOf(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.plural, func(b *testing.B) {
			model := kindtest.Definition(b, c.plural).Storage.Model
			obj := model.New()
			if err := json.Unmarshal([]byte(c.data), obj); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := model.(resource.TypedModel).TreeOf(obj.DeepCopyObject()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCreate decodes, prepares and validates a new object.
func BenchmarkCreate(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.plural, func(b *testing.B) {
			d := kindtest.Definition(b, c.plural)
			b.ReportAllocs()
			for b.Loop() {
				strict := []error{}
				tree, err := d.Storage.Model.Decode([]byte(c.data), &strict)
				if err != nil {
					b.Fatal(err)
				}
				d.Strategy.PrepareCreate(tree)
				if errs := d.Storage.Model.Validate(context.Background(), tree, nil, ""); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
