package client_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/client"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
)

// A wire notes what is sent, and may answer instead of the server.
type wire struct {
	server http.RoundTripper
	answer func(*http.Request) *http.Response // nil, or returns nil: the server answers

	mu   sync.Mutex
	sent []*http.Request
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent = append(w.sent, r)
	w.mu.Unlock()
	if w.answer != nil {
		if answer := w.answer(r); answer != nil {
			answer.Request = r
			return answer, nil
		}
	}
	return w.server.RoundTrip(r)
}

// take returns the requests sent since its last call, except those for discovery.
func (w *wire) take() (sent []*http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.sent {
		if r.URL.Path != "/api" && r.URL.Path != "/apis" {
			sent = append(sent, r)
		}
	}
	w.sent = nil
	return sent
}

// tap puts a wire between a client and its server.
func tap(cfg *rest.Config) *wire {
	w := &wire{}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		w.server = rt
		return w
	})
	return w
}

func answerJSON(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ProtoMajor: 1, ProtoMinor: 1}
}

// What is sent, and asked for: protobuf where both sides know it.
func TestWire(t *testing.T) {
	ctx := t.Context()
	cfg := startServer(t)
	w := tap(cfg)
	scheme := gadgetScheme(t)
	c, err := client.New(cfg, client.Options{Scheme: scheme, FieldOwner: "owner", FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.take()); n != 0 {
		t.Errorf("New sent %d requests", n)
	}
	defineGadgets(t, c)
	const (
		protobuf     = "application/vnd.kubernetes.protobuf"
		json         = "application/json"
		partial      = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		either       = protobuf + "," + json
		writeOptions = "?fieldManager=owner&fieldValidation=Strict"
	)
	cm, g := configMap("a"), &gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "u", "namespace": "default"}}}
	m := &metav1.PartialObjectMetadata{ObjectMeta: cm.ObjectMeta}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	w.take()
	for _, test := range []struct {
		what         string
		do           func() error
		sends        string // method and URL
		body, accept string // media types
	}{
		{"create, built in", func() error { return c.Create(ctx, cm) },
			"POST /api/v1/namespaces/default/configmaps" + writeOptions, protobuf, either},
		{"create, custom", func() error { return c.Create(ctx, g) },
			"POST /apis/example.com/v1/namespaces/default/gadgets" + writeOptions, json, json},
		{"create, unstructured", func() error { return c.Create(ctx, u, client.FieldOwner("me"), client.DryRunAll) },
			"POST /api/v1/namespaces/default/configmaps?dryRun=All&fieldManager=me&fieldValidation=Strict", json, json},
		{"update", func() error { return c.Update(ctx, cm) },
			"PUT /api/v1/namespaces/default/configmaps/a" + writeOptions, protobuf, either},
		{"get", func() error { return c.Get(ctx, client.Key("default", "a"), cm) },
			"GET /api/v1/namespaces/default/configmaps/a", "", either},
		{"get, custom", func() error { return c.Get(ctx, client.Key("default", "g"), g) },
			"GET /apis/example.com/v1/namespaces/default/gadgets/g", "", json},
		{"get, metadata", func() error { return c.Get(ctx, client.Key("default", "a"), m) },
			"GET /api/v1/namespaces/default/configmaps/a", "", protobuf + partial + "," + json + partial + "," + json},
		{"list", func() error {
			return c.List(ctx, &corev1.ConfigMapList{}, client.MatchingLabels{"a": "b"}, client.Limit(3), client.InNamespace("default"))
		}, "GET /api/v1/namespaces/default/configmaps?labelSelector=a%3Db&limit=3", "", either},
		{"list of all namespaces", func() error { return c.List(ctx, &gadgetList{}) }, "GET /apis/example.com/v1/gadgets", "", json},
		{"patch", func() error {
			return c.Patch(ctx, g, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"size":3}}`)))
		},
			"PATCH /apis/example.com/v1/namespaces/default/gadgets/g" + writeOptions, "application/merge-patch+json", json},
		{"status", func() error { return c.Status().Update(ctx, g) },
			"PUT /apis/example.com/v1/namespaces/default/gadgets/g/status" + writeOptions, json, json},
		{"apply", func() error {
			return c.Apply(ctx, corev1ac.ConfigMap("a", "default").WithData(map[string]string{"x": "y"}))
		},
			"PATCH /api/v1/namespaces/default/configmaps/a" + writeOptions, "application/apply-patch+yaml", json},
		{"apply, as a patch", func() error { return c.Patch(ctx, configMap("b"), client.Apply, client.ForceOwnership) },
			"PATCH /api/v1/namespaces/default/configmaps/b?fieldManager=owner&fieldValidation=Strict&force=true", "application/apply-patch+yaml", either},
		{"delete", func() error { return c.Delete(ctx, m) },
			"DELETE /api/v1/namespaces/default/configmaps/a", "", json},
		{"delete with options", func() error { return c.Delete(ctx, g, client.GracePeriodSeconds(0)) },
			"DELETE /apis/example.com/v1/namespaces/default/gadgets/g", json, json},
		{"delete all", func() error {
			return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), client.HasLabels{"no"}, client.PropagationPolicy("Orphan"))
		},
			"DELETE /api/v1/namespaces/default/configmaps?labelSelector=no", json, json},
	} {
		if err := test.do(); err != nil {
			t.Errorf("%s: %v", test.what, err)
		}
		sent := w.take()
		if len(sent) != 1 {
			t.Errorf("%s: %d requests", test.what, len(sent))
			continue
		}
		if got := sent[0].Method + " " + sent[0].URL.RequestURI(); got != test.sends {
			t.Errorf("%s: sent  %s\nwant %s", test.what, got, test.sends)
		}
		if got := sent[0].Header.Get("Content-Type"); got != test.body {
			t.Errorf("%s: Content-Type %s, want %s", test.what, got, test.body)
		}
		if got := sent[0].Header.Get("Accept"); got != test.accept {
			t.Errorf("%s: Accept %s, want %s", test.what, got, test.accept)
		}
	}
	if g.Kind != "" || g.Spec.Size != 3 {
		t.Errorf("the gadget: %+v", g)
	}
}

// Invalid arguments return an error without a request: above all a selector that selects nothing,
// which a server would take for one that selects everything.
func TestNothingSent(t *testing.T) {
	ctx := t.Context()
	cfg := startServer(t)
	w := tap(cfg)
	scheme := gadgetScheme(t)
	scheme.AddKnownTypeWithName(gadgetVersion.WithKind("Odd"), &notAList{})
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	keep := configMap("keep")
	if err := c.Create(ctx, keep); err != nil {
		t.Fatal(err)
	}
	w.take()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n"}}
	anywhere := configMap("a")
	anywhere.Namespace = ""
	nameless := configMap("")
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: keep.ObjectMeta}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for what, err := range map[string]error{
		"get of nil":                 c.Get(ctx, client.Key("default", "a"), nil),
		"get of a nil pointer":       c.Get(ctx, client.Key("default", "a"), (*corev1.ConfigMap)(nil)),
		"get without a name":         c.Get(ctx, client.Key("default", ""), keep),
		"get without a namespace":    c.Get(ctx, client.Key("", "a"), keep),
		"get of a node in one":       c.Get(ctx, client.Key("default", "a"), node),
		"get of an unknown type":     c.Get(ctx, client.Key("default", "a"), &authenticationv1.TokenReview{}),
		"get of a kind not defined":  c.Get(ctx, client.Key("default", "a"), &gadget{}),
		"get without a kind":         c.Get(ctx, client.Key("default", "a"), &unstructured.Unstructured{}),
		"get of an unknown kind":     c.Get(ctx, client.Key("default", "a"), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "B"}}),
		"a name that is a path":      c.Get(ctx, client.Key("default", "a/status"), keep),
		"a namespace that is a path": c.Get(ctx, client.Key("../x", "a"), keep),
		"list of nil":                c.List(ctx, nil),
		"list of an object":          c.List(ctx, &notAList{}),
		"list of nodes in one":       c.List(ctx, &corev1.NodeList{}, client.InNamespace("default")),
		"list of odd labels":         c.List(ctx, &corev1.ConfigMapList{}, client.MatchingLabels{"a b": "c"}),
		"create of nil":              c.Create(ctx, nil),
		"create without a name":      c.Create(ctx, nameless),
		"create without a namespace": c.Create(ctx, anywhere),
		"create of metadata":         c.Create(ctx, metadata),
		"update of nil":              c.Update(ctx, (*corev1.ConfigMap)(nil)),
		"update without a name":      c.Update(ctx, nameless),
		"patch of nil":               c.Patch(ctx, nil, client.Merge),
		"patch by nil":               c.Patch(ctx, keep, nil),
		"patch from nil":             c.Patch(ctx, keep, client.MergeFrom(nil)),
		"a lock without a revision":  c.Patch(ctx, keep, client.MergeFromWithOptions(configMap("keep"), client.MergeFromWithOptimisticLock{})),
		"apply of nil":               c.Apply(ctx, nil),
		"apply of a nil object":      c.Apply(ctx, client.ApplyConfigurationFrom(nil)),
		"apply without a kind":       c.Apply(ctx, &corev1ac.ConfigMapApplyConfiguration{}),
		"apply without a name":       c.Apply(ctx, corev1ac.ConfigMap("", "default")),
		"delete of nil":              c.Delete(ctx, nil),
		"delete without a name":      c.Delete(ctx, nameless),
		"delete all of nil":          c.DeleteAllOf(ctx, nil),
		"delete all of odd labels":   c.DeleteAllOf(ctx, keep, client.InNamespace("default"), client.HasLabels{"a b"}),
		"delete all nodes in one":    c.DeleteAllOf(ctx, &corev1.Node{}, client.InNamespace("default")),
		"watch of nothing":           second(c.Watch(ctx, &corev1.ConfigMapList{}, client.MatchingLabelsSelector{Selector: labels.Nothing()})),
		"status of nil":              c.Status().Update(ctx, nil),
		"scale into nil":             c.SubResource("scale").Get(ctx, keep, nil),
		"a subresource without name": c.SubResource("").Get(ctx, keep, &autoscalingv1.Scale{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		} else if testing.Verbose() {
			t.Logf("%s: %v", what, err)
		}
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{Continue: "old"}, Items: []corev1.ConfigMap{*keep}}
	for _, nothing := range []client.ListOption{client.MatchingLabelsSelector{Selector: labels.Nothing()}, client.MatchingFieldsSelector{Selector: fields.Nothing()}} {
		if err := c.List(ctx, list, nothing); err != nil || len(list.Items) != 0 || list.Continue != "" {
			t.Errorf("list of nothing: %v, %v", list, err)
		}
	}
	nothing := client.MatchingLabelsSelector{Selector: labels.Nothing()}
	if err := c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), nothing); err != nil {
		t.Error(err)
	}
	for _, r := range w.take() {
		t.Errorf("sent %s %s", r.Method, r.URL)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(keep), keep); err != nil {
		t.Error(err)
	}
}

// notAList has the methods of a list, but is an object.
type notAList struct {
	gadget
	metav1.ListMeta
}

func (n *notAList) GetObjectKind() schema.ObjectKind { return &n.TypeMeta }

func (n *notAList) DeepCopyObject() runtime.Object { return n }

func (n *notAList) GetListMeta() metav1.ListInterface { return &n.ListMeta }

func (n *notAList) GetResourceVersion() string { return "" }

func (n *notAList) SetResourceVersion(string) {}

func (n *notAList) GetSelfLink() string { return "" }

func (n *notAList) SetSelfLink(string) {}

// TestDryRunClient checks that a client for dry runs changes nothing, whatever its options.
func TestDryRunClient(t *testing.T) {
	ctx := t.Context()
	cfg := startServer(t)
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dry, err := client.New(cfg, client.Options{DryRun: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	cm := configMap("a")
	if err := c.Create(ctx, cm); err != nil {
		t.Fatal(err)
	}
	changed := configMap("a", "x", "y")
	for what, err := range map[string]error{
		"create":     dry.Create(ctx, configMap("b")),
		"update":     dry.Update(ctx, changed),
		"patch":      dry.Patch(ctx, changed.DeepCopy(), client.Merge),
		"apply":      dry.Apply(ctx, client.ApplyConfigurationFrom(configMap("c")), client.FieldOwner("o")),
		"delete":     dry.Delete(ctx, configMap("a")),
		"delete all": dry.DeleteAllOf(ctx, cm, client.InNamespace("default")),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if changed.Data["x"] != "y" {
		t.Errorf("the answer to the update: %v", changed)
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace("default")); err != nil || len(list.Items) != 1 || list.Items[0].ResourceVersion != cm.ResourceVersion {
		t.Errorf("there is %v, %v", list.Items, err)
	}
}

// What servers answer that is not an object.
func TestOddAnswers(t *testing.T) {
	cfg := startServer(t)
	w := tap(cfg)
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`
	for _, test := range []struct {
		what   string
		answer *http.Response
		is     func(error) bool
	}{
		{"a status", answerJSON(403, status), apierrors.IsForbidden},
		{"a status that says OK", answerJSON(200, status), anyError},
		{"another kind", answerJSON(200, `{"kind":"Secret","apiVersion":"v1"}`), anyError},
		{"an empty answer", answerJSON(200, ``), anyError},
		{"half an object", answerJSON(200, `{"kind":"ConfigMap","apiVersion":"v1"`), anyError},
		{"a field of another type", answerJSON(200, `{"kind":"ConfigMap","apiVersion":"v1","data":7}`), anyError},
		{"no kind", answerJSON(200, `{"metadata":{"name":"a"}}`), func(err error) bool { return err == nil }},
		{"an error in text", &http.Response{StatusCode: 502, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("oh"))}, anyError},
		{"HTML", &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader("<p>"))}, anyError},
		{"no media type", &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x"))}, anyError},
		{"invalid protobuf", &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}}, Body: io.NopCloser(strings.NewReader("x"))}, anyError},
		{"half protobuf", &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}}, Body: io.NopCloser(bytes.NewReader([]byte("k8s\x00\x0a\xff")))}, anyError},
	} {
		w.answer = func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/odd") {
				return test.answer
			}
			return nil
		}
		err := c.Get(t.Context(), client.Key("default", "odd"), &corev1.ConfigMap{})
		if !test.is(err) {
			t.Errorf("%s: %v", test.what, err)
		}
		if testing.Verbose() {
			t.Logf("%s: %v", test.what, err)
		}
	}
}

func anyError(err error) bool { return err != nil }

// A token comes as an answer to what is posted.
func TestToken(t *testing.T) {
	cfg := startServer(t)
	w := tap(cfg)
	w.answer = func(r *http.Request) *http.Response {
		if r.URL.Path != "/api/v1/namespaces/default/serviceaccounts/robot/token" {
			return nil
		}
		return answerJSON(201, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"secret","expirationTimestamp":null}}`)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	token := &authenticationv1.TokenRequest{}
	accounts := client.For[*corev1.ServiceAccount](c).In("default")
	if err := accounts.SubResource("token").Create(t.Context(), client.Key("", "robot"), token); err != nil || token.Status.Token != "secret" {
		t.Errorf("token %+v, %v", token, err)
	}
}
