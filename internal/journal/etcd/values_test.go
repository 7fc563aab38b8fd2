package etcd

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/versions"
	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func testValues() *values {
	return &values{prefix: "/registry", paths: kinds.Paths(), decode: versions.DecodeProtobuf}
}

func TestKeys(t *testing.T) {
	v := testValues()
	for path, want := range map[string]string{
		"/registry/pods/default/web":                     "pods/default/web",
		"/registry/services/specs/default/web":           "services/default/web",
		"/registry/minions/one":                          "nodes/one",
		"/registry/example.com/widgets/default/w":        "widgets.example.com/default/w",
		"/registry/kapok/compacted":                      "",
		"/registry/masterleases/10.0.0.1":                "",
		"/registry/ranges/serviceips":                    "",
		"/registry/ranges/servicenodeports":              "ranges/servicenodeports",
		"/registry/peerserverleases/apiserver-something": "",
		"/registry/": "",
	} {
		k, ok := v.key([]byte(path))
		if ok != (want != "") || ok && k.String() != want {
			t.Errorf("%s is of %q, %t; want %q", path, k, ok, want)
		}
		if ok && string(v.path(k)) != path {
			t.Errorf("%s is kept under %s", k, v.path(k))
		}
	}
	from, to := v.of(schema.GroupResource{Resource: "pods"})
	if string(from) != "/registry/pods/" || string(to) != "/registry/pods0" {
		t.Errorf("pods are in [%s, %s)", from, to)
	}
}

// protobufOf returns the form in which kube-apiserver stores an object.
func protobufOf(t testing.TB, o runtime.Object, version schema.GroupVersion) []byte {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	o.GetObjectKind().SetGroupVersionKind(version.WithKind(o.GetObjectKind().GroupVersionKind().Kind))
	var stored bytes.Buffer
	if err := protobuf.NewSerializer(s, s).Encode(o, &stored); err != nil {
		t.Fatal(err)
	}
	return stored.Bytes()
}

func TestObjects(t *testing.T) {
	created := metav1.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	deployment := protobufOf(t, &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1", ResourceVersion: "77", CreationTimestamp: created,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}, appsv1.SchemeGroupVersion)
	definition := protobufOf(t, &apiextensions.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "u2"},
		Spec:       apiextensions.CustomResourceDefinitionSpec{Group: "example.com"},
	}, apiextensions.SchemeGroupVersion)

	for _, test := range []struct {
		name, path, value string
		want              []string // in this order
		not               []string
		fails             string
	}{
		{name: "canonical", path: "/pods/d/a", value: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"}}`,
			want: []string{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"}}`}},
		{name: "foreign JSON", path: "/example.com/widgets/d/a",
			value: `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"uid":"u","name":"a","creationTimestamp":null,"resourceVersion":"9"},"spec":{"b":1,"a":2.50}}` + "\n",
			want:  []string{`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{`, `"name":"a","uid":"u"`, `"spec":{"a":2.5,"b":1}}`},
			not:   []string{"resourceVersion", "\n"}},
		{name: "protobuf", path: "/deployments/default/web", value: string(deployment),
			want: []string{`"apiVersion":"apps/v1"`, `"kind":"Deployment"`, `"creationTimestamp":"2024-05-01T10:00:00Z"`, `"fieldsV1":{"f:spec":{}}`, `"uid":"u1"`, `"image":"i"`},
			not:  []string{"resourceVersion"}},
		{name: "protobuf of a definition", path: "/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", value: string(definition),
			want: []string{`"kind":"CustomResourceDefinition"`, `"group":"example.com"`}},
		{name: "unknown kind", path: "/pods/d/a", value: strings.Replace(string(deployment), "apps/v1", "apps/v7", 1), fails: "apps/v7"},
		{name: "torn protobuf", path: "/pods/d/a", value: string(deployment[:len(deployment)/2]), fails: "protobuf"},
		{name: "no JSON", path: "/pods/d/a", value: "hello", fails: "decode"},
		{name: "no object", path: "/pods/d/a", value: "[1]", fails: "decode"},
		{name: "empty", path: "/pods/d/a", value: "", fails: "decode"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := testValues()
			kv := &mvccpb.KeyValue{Key: []byte("/registry" + test.path), Value: []byte(test.value), ModRevision: 12}
			key, ok := v.key(kv.Key)
			if !ok {
				t.Fatal("no key")
			}
			o, err := v.object(key, kv)
			if test.fails != "" {
				var damaged *journal.DamagedError
				if !errors.As(err, &damaged) || !strings.Contains(err.Error(), string(kv.Key)) || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("error %v, want one that names %s and %q", err, kv.Key, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			rest := string(o.Raw)
			for _, want := range test.want {
				var found bool
				if _, rest, found = strings.Cut(rest, want); !found {
					t.Errorf("%s lacks %s, or has it elsewhere", o.Raw, want)
				}
			}
			for _, not := range test.not {
				if strings.Contains(string(o.Raw), not) {
					t.Errorf("%s has %q", o.Raw, not)
				}
			}
			if o.Key != key || o.Revision != 12 || o.Schema != 0 || time.Since(o.Written) > time.Minute || o.Meta.UID == "" {
				t.Errorf("%+v", o)
			}
			again, err := object.Parse(key, o.Raw, 0, o.Written)
			if err != nil || !bytes.Equal(again.Raw, o.Raw) || &again.Raw[0] != &o.Raw[0] {
				t.Errorf("not canonical: %s", o.Raw)
			}
		})
	}
}

// reverser is a Sealer that turns bytes round, with a mark before them.
type reverser struct{ mark byte }

func (r reverser) Ready(object.Key) error { return nil }

func (r reverser) Seal(_ object.Key, raw []byte) ([]byte, error) { return r.turn(raw), nil }

func (r reverser) turn(raw []byte) []byte {
	stored := []byte{r.mark}
	for i := len(raw) - 1; i >= 0; i-- {
		stored = append(stored, raw[i])
	}
	return stored
}

func (r reverser) Open(_ object.Key, stored []byte) ([]byte, bool, error) {
	if len(stored) == 0 || stored[0] != r.mark && stored[0] != 'o' {
		return nil, false, errors.New("sealed with an unknown key")
	}
	return r.turn(stored[1:])[1:], stored[0] != r.mark, nil
}

func TestSealed(t *testing.T) {
	v := testValues()
	v.sealer = reverser{'n'}
	key := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "d", Name: "a"}
	raw := []byte(`{"kind":"Secret","metadata":{"name":"a","uid":"u"}}`)
	stored, err := v.seal(key, raw)
	if err != nil || bytes.Contains(stored, []byte("Secret")) {
		t.Fatalf("stored %s, error %v", stored, err)
	}
	for _, test := range []struct {
		stored []byte
		stale  bool
		fails  bool
	}{
		{stored: stored},
		{stored: reverser{'o'}.turn(raw), stale: true},
		{stored: reverser{'x'}.turn(raw), fails: true},
	} {
		o, err := v.object(key, &mvccpb.KeyValue{Key: v.path(key), Value: test.stored, ModRevision: 1})
		if test.fails != (err != nil) || err == nil && (o.Stale != test.stale || !bytes.Equal(o.Raw, raw)) {
			t.Errorf("%s reads %+v, error %v", test.stored, o, err)
		}
	}
}

func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","metadata":{"name":"a"}}`))
	f.Add(protobufOf(f, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}}, corev1.SchemeGroupVersion))
	v := testValues()
	key := object.Key{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "d", Name: "a"}
	f.Fuzz(func(t *testing.T, value []byte) {
		o, err := v.object(key, &mvccpb.KeyValue{Key: v.path(key), Value: value, ModRevision: 1})
		if err != nil {
			return
		}
		if _, err := o.Tree(); err != nil {
			t.Errorf("%q reads %s: %v", value, o.Raw, err)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add("/registry/pods/default/web")
	f.Add("/registry/services/specs/a/b")
	v := testValues()
	f.Fuzz(func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/registry/") {
			return // the watch brings no others
		}
		if k, ok := v.key([]byte(path)); ok && string(v.path(k)) != path {
			t.Errorf("%q is of %s, which is kept under %q", path, k, v.path(k))
		}
	})
}
