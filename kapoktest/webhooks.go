package kapoktest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// With Webhooks, the server calls webhooks that refer to a service directly within the test
// process, without a connection: see [Env.WebhookMux].
//
//	env := kapoktest.Start(t, kapoktest.CRDs("../config/crd/bases"), kapoktest.Webhooks("../config/webhook"))
//	server := webhook.NewServer(webhook.Options{Port: -1, WebhookMux: env.WebhookMux()}) // does not listen
//
// The ValidatingWebhookConfigurations and MutatingWebhookConfigurations in the files and
// directories are created after all other objects. A CustomResourceDefinition among them is treated
// as a patch, as in kubebuilder's config/crd/patches: its spec.conversion is set in the definition,
// which comes from an option such as [CRDs]. Other objects are ignored.
//
// Kinds that have a Hub among their Go types in the [Scheme], and whose definition has no
// conversion, are converted at /convert.
//
// Neither a Service nor a caBundle is needed. Webhooks with a url are called over the network.
func Webhooks(paths ...string) Option {
	return func(o *options) { o.webhooks = append(o.webhooks, webhooksAt(paths)) }
}

// WebhookMux returns the mux that receives the calls to the webhooks of all services: register each
// handler under the path of its webhook. It belongs to this Env, and is empty at first. Patterns
// with a host tell several services apart: "webhook-service.other-system.svc/" matches all paths of
// that service.
func (e *Env) WebhookMux() *http.ServeMux {
	e.t.Helper()
	if e.webhooks == nil {
		e.t.Fatalf("the test serves no webhooks: set the option Webhooks")
	}
	return e.webhooks.mux
}

// webhooksAt are the paths of an option.
type webhooksAt []string

// webhooks are those of all options.
type webhooks struct {
	mux            *http.ServeMux
	configurations []*unstructured.Unstructured
	conversions    map[string]map[string]any // spec.conversion by the name of the definition
	asked          sync.WaitGroup            // handlers that have not returned
}

// loadWebhooks reads the manifests. Without options there are no webhooks, nil.
func loadWebhooks(all []webhooksAt) (*webhooks, error) {
	if len(all) == 0 {
		return nil, nil
	}
	w := &webhooks{mux: http.NewServeMux(), conversions: map[string]map[string]any{}}
	for _, paths := range all {
		for _, path := range paths {
			objs, err := readPath(path)
			if err != nil {
				return nil, err
			}
			some := false
			for _, obj := range objs {
				some = w.take(obj) || some
			}
			if !some {
				return nil, fmt.Errorf("%s: want at least one webhook configuration, found none", path)
			}
		}
	}
	return w, nil
}

// take adds an object if it configures webhooks.
func (w *webhooks) take(obj *unstructured.Unstructured) bool {
	switch obj.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		w.configurations = append(w.configurations, obj)
		return true
	case definitionKind:
		conversion, ok, _ := unstructured.NestedMap(obj.Object, "spec", "conversion")
		if ok {
			w.conversions[obj.GetName()] = conversion
		}
		return ok
	}
	return false
}

// service implements kapok.WebhookOptions.Services: the handler serves every service.
func (w *webhooks) service(_, _ string) http.Handler { return w }

// ServeHTTP passes the request to the mux. A killed server does not wait, and a handler may outlive
// it: the handler therefore does not read from or write to the connection itself.
func (w *webhooks) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	asked := r.Clone(r.Context())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	says, end := &reply{header: http.Header{}}, make(chan any, 1)
	w.asked.Go(func() {
		var panicked any = http.ErrAbortHandler // or ended by runtime.Goexit
		defer func() {
			if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
				panicked = fmt.Sprintf("%v\n%s", reason, debug.Stack())
			}
			end <- panicked
		}()
		w.mux.ServeHTTP(says, asked)
		panicked = nil
	})
	select {
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case panicked := <-end:
		if panicked != nil {
			panic(panicked)
		}
	}
	says.send(to)
}

// reply is the response of a handler.
type reply struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *reply) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *reply) WriteHeader(code int) {
	if a.code == 0 && code >= http.StatusOK {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *reply) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *reply) send(to http.ResponseWriter) {
	maps.Copy(to.Header(), a.header)
	to.WriteHeader(cmp.Or(a.code, http.StatusOK))
	_, _ = to.Write(a.body.Bytes()) // the client may be gone
}

// convert sets the conversion of definitions from patches and Go types.
func (w *webhooks) convert(crds []*unstructured.Unstructured, scheme *runtime.Scheme) error {
	if w == nil {
		return nil
	}
	known := map[string]bool{}
	for _, crd := range crds {
		known[crd.GetName()] = true
		conversion, ok := w.conversions[crd.GetName()]
		if !ok {
			if conversion, ok, _ = unstructured.NestedMap(crd.Object, "spec", "conversion"); !ok && hasHub(crd, scheme) {
				conversion, ok = hubConversion(), true
			}
		}
		if !ok {
			continue
		}
		if _, atService, _ := unstructured.NestedMap(conversion, "webhook", "clientConfig", "service"); atService {
			// Where manifests have something in its place that is no certificate, for others to
			// fill in, the kind would not be served.
			unstructured.RemoveNestedField(conversion, "webhook", "clientConfig", "caBundle")
		}
		if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
			return fmt.Errorf("conversion of %s: %w", crd.GetName(), err)
		}
	}
	for name := range w.conversions {
		if !known[name] {
			return fmt.Errorf("conversion of %s: there is no such CustomResourceDefinition", name)
		}
	}
	return nil
}

// hub is a version of a kind through which all conversions go, in Kapok and in controller-runtime.
var hub = reflect.TypeFor[interface{ Hub() }]()

// hasHub reports whether the Go types of a definition's kind convert each other.
func hasHub(crd *unstructured.Unstructured, scheme *runtime.Scheme) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	if versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions"); len(versions) < 2 {
		return false
	}
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Group == group && gvk.Kind == kind && reflect.PointerTo(t).Implements(hub) {
			return true
		}
	}
	return false
}

// hubConversion returns the conversion of a definition with the path at which both frameworks,
// Kapok and controller-runtime, serve it.
func hubConversion() map[string]any {
	return map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig":             map[string]any{"service": map[string]any{"namespace": "system", "name": "webhook-service", "path": "/convert"}},
	}}
}

// configure creates the configurations of webhooks.
func (e *Env) configure() {
	e.t.Helper()
	if e.webhooks == nil {
		return
	}
	for _, c := range e.webhooks.configurations {
		if err := e.create(c); err != nil {
			e.t.Fatalf("create %s: %v", e.describe(c), err)
		}
	}
}
