package client_test

import (
	"bytes"
	"io"
	"maps"
	"math/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// echo answers every request with the same bytes, and keeps what was sent.
type echo struct {
	contentType string
	body, sent  []byte
}

func (e *echo) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		e.sent, _ = io.ReadAll(r.Body)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {e.contentType}}, Body: io.NopCloser(bytes.NewReader(e.body)), Request: r}, nil
}

// The client reads what client-go's serializers read, and writes what they write: for random
// objects of every built-in kind, as JSON and as protobuf, as Go types and as maps.
func TestSameAsClientGo(t *testing.T) {
	seed := int64(seeds.Of(t))
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs)

	mapper := meta.NewDefaultRESTMapper(nil)
	all := slices.SortedFunc(maps.Keys(scheme.Scheme.AllKnownTypes()), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, gvk := range all {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
		if !ok {
			t.Fatal(contentType)
		}
		server := &echo{contentType: contentType}
		cfg := &rest.Config{Host: "http://server", ContentConfig: rest.ContentConfig{ContentType: contentType}}
		c, err := client.New(cfg, client.Options{HTTPClient: &http.Client{Transport: server}, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		kinds := 0
		for _, gvk := range all {
			made, err := scheme.Scheme.New(gvk)
			if err != nil {
				t.Fatal(err)
			}
			isList := strings.HasSuffix(gvk.Kind, "List") && meta.IsListType(made)
			obj, isObject := made.(client.Object)
			if gvk.Version == runtime.APIVersionInternal || !isObject && !isList || gvk.Group == metav1.GroupName || gvk.Kind == "List" {
				continue
			}
			kinds++
			fill.Fill(made)
			if isObject {
				obj.SetNamespace("default")
				obj.SetName("name")
			}
			codec := scheme.Codecs.CodecForVersions(info.Serializer, info.Serializer, gvk.GroupVersion(), gvk.GroupVersion())
			made.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			if server.body, err = runtime.Encode(codec, made); err != nil {
				t.Fatalf("%v: %v", gvk, err)
			}
			want, err := scheme.Scheme.New(gvk)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := info.Serializer.Decode(server.body, nil, want); err != nil {
				t.Fatalf("%v: %v", gvk, err)
			}
			want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			got, err := scheme.Scheme.New(gvk)
			if err != nil {
				t.Fatal(err)
			}
			fill.Fill(got) // must be gone
			got.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			if isList {
				err = c.List(t.Context(), got.(client.ObjectList))
			} else {
				err = c.Get(t.Context(), client.Key("default", "name"), got.(client.Object))
			}
			if err != nil {
				t.Errorf("%v: %v", gvk, err)
			} else if !equality.Semantic.DeepEqual(want, got) {
				t.Errorf("%v from %s:\n%s", gvk, contentType, cmp.Diff(want, got))
			}
			if isObject {
				if err := c.Update(t.Context(), obj.DeepCopyObject().(client.Object)); err != nil {
					t.Errorf("%v: %v", gvk, err)
				} else if sent := bytes.TrimSpace(server.sent); !bytes.Equal(sent, bytes.TrimSpace(server.body)) {
					t.Errorf("%v to %s: sent\n%q, want\n%q", gvk, contentType, sent, server.body)
				}
			}
			if contentType == runtime.ContentTypeJSON {
				sameUnstructured(t, c, server, gvk, isList)
			}
		}
		if kinds < 200 {
			t.Errorf("%d kinds", kinds)
		}
	}
}

func sameUnstructured(t *testing.T, c client.Client, server *echo, gvk schema.GroupVersionKind, isList bool) {
	t.Helper()
	decoded, err := runtime.Decode(unstructured.UnstructuredJSONScheme, server.body)
	if err != nil {
		t.Fatalf("%v: %v", gvk, err)
	}
	if !isList {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(gvk)
		if err := c.Get(t.Context(), client.Key("default", "name"), got); err != nil {
			t.Errorf("%v: %v", gvk, err)
		} else if diff := cmp.Diff(decoded, runtime.Object(got)); diff != "" {
			t.Errorf("%v as a map:\n%s", gvk, diff)
		}
		return
	}
	got := &unstructured.UnstructuredList{}
	got.SetGroupVersionKind(gvk)
	if err := c.List(t.Context(), got); err != nil {
		t.Errorf("%v: %v", gvk, err)
	} else if diff := cmp.Diff(decoded, runtime.Object(got)); diff != "" {
		t.Errorf("%v as a map:\n%s", gvk, diff)
	}
}
