package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
	"github.com/kapok-dev/kapok/internal/webhook"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	judge "k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubewebhook "k8s.io/apiserver/pkg/util/webhook"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		// The library never closes its connections.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("net/http/internal/http2.(*ClientConn).readLoop"))
}

const foo = `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"a","namespace":"n","uid":"u1","generation":3,"labels":{"l":"1"},` +
	`"annotations":{"x":"y"},"finalizers":["f/g"],"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"host":"h<&>","port":8080,"ratio":0.5,"big":9007199254740993,"nothing":null}}`

// honest returns a valid response.
func honest(r *hooktest.Review) any { return changed(nil)(r) }

// changed returns a valid response after changing each converted object.
func changed(change func(obj, meta Tree)) func(*hooktest.Review) any {
	return func(r *hooktest.Review) any {
		objects := []map[string]any{}
		for _, obj := range r.Request.Objects {
			obj["apiVersion"] = r.Request.Desired
			obj["spec"] = Tree{"hostPort": "h:8080", "count": 3}
			if change != nil {
				change(obj, obj["metadata"].(map[string]any))
			}
			objects = append(objects, obj)
		}
		return r.Success(objects...)
	}
}

// response returns a valid response after changing its fields.
func response(change func(review, response Tree)) func(*hooktest.Review) any {
	return func(r *hooktest.Review) any {
		review := honest(r).(map[string]any)
		change(review, review["response"].(map[string]any))
		return review
	}
}

func bytesOf(s string) func(*hooktest.Review) any {
	return func(*hooktest.Review) any { return []byte(s) }
}

// answers are responses of webhooks; each is tested with a single object and with a list.
var answers = []struct {
	name   string
	answer func(*hooktest.Review) any
}{
	{"honest", honest},
	{"labels added", changed(func(_, meta Tree) { meta["labels"] = Tree{"l": "2", "m": ""} })},
	{"labels removed", changed(func(_, meta Tree) { delete(meta, "labels"); meta["annotations"] = nil })},
	{"labels emptied", changed(func(_, meta Tree) { meta["labels"], meta["annotations"] = Tree{}, Tree{} })},
	{"bad label", changed(func(_, meta Tree) { meta["labels"] = Tree{"a b": "c"} })},
	{"long label", changed(func(_, meta Tree) { meta["labels"] = Tree{"x": strings.Repeat("v", 70)} })},
	{"bad annotation", changed(func(_, meta Tree) { meta["annotations"] = Tree{"a b": "c"} })},
	{"label no string", changed(func(_, meta Tree) { meta["labels"] = Tree{"a": 1} })},
	{"annotation no string", changed(func(_, meta Tree) { meta["annotations"] = Tree{"a": Tree{}} })},
	{"labels a list", changed(func(_, meta Tree) { meta["labels"] = []any{"a"} })},
	{"other metadata", changed(func(_, meta Tree) {
		meta["finalizers"], meta["generation"], meta["ownerReferences"], meta["resourceVersion"] = []any{}, 9, []any{Tree{}}, "77"
		delete(meta, "creationTimestamp")
	})},
	{"name", changed(func(_, meta Tree) { meta["name"] = "b" })},
	{"name gone", changed(func(_, meta Tree) { delete(meta, "name") })},
	{"name a number", changed(func(_, meta Tree) { meta["name"] = 7 })},
	{"namespace", changed(func(_, meta Tree) { meta["namespace"] = "m" })},
	{"namespace gone", changed(func(_, meta Tree) { delete(meta, "namespace") })},
	{"uid", changed(func(_, meta Tree) { meta["uid"] = "u2" })},
	{"no metadata", changed(func(obj, _ Tree) { delete(obj, "metadata") })},
	{"metadata a string", changed(func(obj, _ Tree) { obj["metadata"] = "a" })},
	{"version as it was", changed(func(obj, _ Tree) { obj["apiVersion"] = "example.com/v2" })},
	{"unknown version", changed(func(obj, _ Tree) { obj["apiVersion"] = "example.com/v9" })},
	{"other group", changed(func(obj, _ Tree) { obj["apiVersion"] = "example.org/v1" })},
	{"no version", changed(func(obj, _ Tree) { delete(obj, "apiVersion") })},
	{"bad version", changed(func(obj, _ Tree) { obj["apiVersion"] = "a/b/c" })},
	{"kind", changed(func(obj, _ Tree) { obj["kind"] = "Bar" })},
	{"no kind", changed(func(obj, _ Tree) { delete(obj, "kind") })},
	{"kind a number", changed(func(obj, _ Tree) { obj["kind"] = 1 })},
	{"items", changed(func(obj, _ Tree) { obj["items"] = []any{} })},
	{"items of things", changed(func(obj, _ Tree) { obj["items"] = []any{Tree{"a": "b"}} })},
	{"spec gone", changed(func(obj, _ Tree) { delete(obj, "spec") })},

	{"one too few", response(func(_, r Tree) { r["convertedObjects"] = r["convertedObjects"].([]map[string]any)[1:] })},
	{"one too many", response(func(_, r Tree) {
		o := r["convertedObjects"].([]map[string]any)
		r["convertedObjects"] = append(o, o[0])
	})},
	{"none", response(func(_, r Tree) { r["convertedObjects"] = nil })},
	{"an object of null", response(func(_, r Tree) { r["convertedObjects"].([]map[string]any)[0] = nil })},
	{"uid of another request", response(func(_, r Tree) { r["uid"] = "x" })},
	{"no uid", response(func(_, r Tree) { delete(r, "uid") })},
	{"failure", response(func(_, r Tree) { r["result"] = Tree{"status": "Failure", "message": "I will not"} })},
	{"failure without a message", response(func(_, r Tree) { r["result"] = Tree{"status": "Failure"} })},
	{"no result", response(func(_, r Tree) { delete(r, "result") })},
	{"success with a message", response(func(_, r Tree) { r["result"] = Tree{"status": "Success", "message": "fine"} })},
	{"no response", response(func(review, _ Tree) { delete(review, "response") })},
	{"of v1beta1", response(func(review, _ Tree) { review["apiVersion"] = "apiextensions.k8s.io/v1beta1" })},
	{"of v1", response(func(review, _ Tree) { review["apiVersion"] = "apiextensions.k8s.io/v1" })},
	{"of v2", response(func(review, _ Tree) { review["apiVersion"] = "apiextensions.k8s.io/v2" })},
	{"of no version", response(func(review, _ Tree) { delete(review, "apiVersion") })},
	{"of no kind", response(func(review, _ Tree) { delete(review, "kind") })},
	{"a Pod", bytesOf(`{"apiVersion":"v1","kind":"Pod"}`)},
	{"a Status", bytesOf(`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"a Status","code":403}`)},

	{"garbage", bytesOf("{hello")},
	{"text", bytesOf("hello")},
	{"null", bytesOf("null")},
	{"a list", bytesOf("[]")},
	{"nothing", bytesOf("")},
	{"objects of another type", bytesOf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":{}}}`)},
	{"404", func(*hooktest.Review) any { return 404 }},
	{"403", func(*hooktest.Review) any { return 403 }},
	{"500", func(*hooktest.Review) any { return 500 }},
	{"302", func(*hooktest.Review) any { return 302 }},
}

func parse(t testing.TB, text string) Tree {
	t.Helper()
	obj, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func webhookConversion(h *hooktest.Hook, reviews ...string) *apiextensionsv1.WebhookConversion {
	return &apiextensionsv1.WebhookConversion{
		ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &h.URL, CABundle: h.CA},
		ConversionReviewVersions: reviews,
	}
}

func newJudge(t testing.TB, c *apiextensionsv1.WebhookConversion) runtime.ObjectConvertor {
	t.Helper()
	factory, err := judge.NewCRConverterFactory(kubewebhook.NewDefaultServiceResolver(), nil)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group:      "example.com",
		Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2"}},
		Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: c},
	}}
	crd.Name = "foos.example.com"
	safe, _, err := factory.NewConverter(crd)
	if err != nil {
		t.Fatal(err)
	}
	return safe
}

var uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// verdict formats an outcome for comparison.
func verdict(objs []Tree, err error) string {
	if err != nil {
		text := uids.ReplaceAllString(err.Error(), "UID")
		// The library names a list as a whole.
		return "error: " + strings.ReplaceAll(text, "example.com/v1, Kind=FooList", "example.com/v2, Kind=Foo")
	}
	data, err := json.MarshalIndent(objs, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// TestJudge converts with the same webhook here and in Kubernetes' library, and compares requests
// and results.
func TestJudge(t *testing.T) {
	hooks := NewWebhooks(webhook.Options{})
	defer hooks.Close()
	hook := hooktest.Start(t, honest)
	target := schema.GroupVersion{Group: "example.com", Version: "v1"}
	second := strings.ReplaceAll(foo, `"name":"a"`, `"name":"b"`)
	// compare compares the requests and the results; the library runs second.
	compare := func(t *testing.T, want, got string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
		calls := hook.Calls()
		if len(calls) != 2 {
			t.Fatalf("%d calls", len(calls))
		}
		for i := range calls {
			calls[i].Request.UID, calls[i].GaveUp = "", nil
		}
		if diff := cmp.Diff(calls[1], calls[0]); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	for _, reviews := range [][]string{{"v1"}, {"v1beta1"}, {"v7", "v1beta1", "v1"}} {
		c := webhookConversion(hook, reviews...)
		ours, theirs := hooks.New("foos.example.com", c), newJudge(t, c)
		for _, row := range answers {
			hook.Answer(row.answer)
			t.Run(strings.Join(reviews, ",")+"/"+row.name, func(t *testing.T) {
				got, gotErr := ours.Convert(context.Background(), []Tree{parse(t, foo)}, target.String())
				converted, err := theirs.ConvertToVersion(&unstructured.Unstructured{Object: parse(t, foo)}, target)
				var want []Tree
				if u, ok := converted.(*unstructured.Unstructured); ok && u != nil {
					want = []Tree{u.Object}
				}
				compare(t, verdict(want, err), verdict(got, gotErr))

				got, gotErr = ours.Convert(context.Background(), []Tree{parse(t, foo), parse(t, second)}, target.String())
				list := &unstructured.UnstructuredList{
					Object: Tree{"apiVersion": target.String(), "kind": "FooList"},
					Items:  []unstructured.Unstructured{{Object: parse(t, foo)}, {Object: parse(t, second)}},
				}
				converted, err = theirs.ConvertToVersion(list, target)
				want = nil
				if l, ok := converted.(*unstructured.UnstructuredList); ok && l != nil {
					for _, item := range l.Items {
						want = append(want, item.Object)
					}
				}
				compare(t, verdict(want, err), verdict(got, gotErr))
			})
		}
	}
}

// TestRequestBytes compares requests byte by byte, except that encoding/json escapes characters of
// HTML.
func TestRequestBytes(t *testing.T) {
	foo := strings.ReplaceAll(foo, "<&>", "")
	for _, version := range []string{"v1", "v1beta1"} {
		r, err := newReview([]string{version}, []Tree{parse(t, foo)}, "example.com/v1")
		if err != nil {
			t.Fatal(err)
		}
		objects := []runtime.RawExtension{{Object: &unstructured.Unstructured{Object: parse(t, foo)}}}
		var review runtime.Object = &apiextensionsv1.ConversionReview{
			Request:  &apiextensionsv1.ConversionRequest{UID: r.uid, DesiredAPIVersion: "example.com/v1", Objects: objects},
			Response: &apiextensionsv1.ConversionResponse{},
		}
		if version == "v1beta1" {
			review = &apiextensionsv1beta1.ConversionReview{
				Request:  &apiextensionsv1beta1.ConversionRequest{UID: r.uid, DesiredAPIVersion: "example.com/v1", Objects: objects},
				Response: &apiextensionsv1beta1.ConversionResponse{},
			}
		}
		var want bytes.Buffer
		if err := codecs().SupportedMediaTypes()[0].Serializer.Encode(review, &want); err != nil {
			t.Fatal(err)
		}
		if got, want := string(r.request), strings.TrimSpace(want.String()); got != want {
			t.Errorf("%s:\n got %s\nwant %s", version, got, want)
		}
	}
}
