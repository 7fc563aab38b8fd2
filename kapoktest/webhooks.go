package kapoktest

import (
	"fmt"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Webhooks has the server ask a handler of the test's process: the http.ServeMux of a webhook server that does not listen, for one.
//
//	hooks := http.NewServeMux()
//	server := webhook.NewServer(webhook.Options{Port: -1, WebhookMux: hooks})
//	env := kapoktest.Start(t, kapoktest.CRDs("../config/crd/bases"), kapoktest.Webhooks(hooks, "../config/webhook"))
//
// Of files and folders, read as by [CRDs], the ValidatingWebhookConfigurations and MutatingWebhookConfigurations are created, after all
// other objects. A CustomResourceDefinition among them is a patch, as kubebuilder's config/crd/patches has it: its spec.conversion
// becomes that of the definition, which an option such as CRDs brings. The handler is asked whatever webhooks at a service that is named
// there are asked; without paths, those at any service that no other option names. Requests come in memory: neither the service nor a
// caBundle need be there. Webhooks at a url are left alone.
//
// A kind that has a Hub among its Go types in the [Scheme], and whose definition says nothing of conversions, is converted by the first
// handler, at /convert.
//
// With a nil handler nobody is there.
func Webhooks(handler http.Handler, paths ...string) Option {
	return func(o *options) { o.webhooks = append(o.webhooks, webhooksAt{handler, paths}) }
}

type webhooksAt struct {
	handler http.Handler
	paths   []string
}

// webhooks are those of all options.
type webhooks struct {
	routes         []route // in the order of the options
	configurations []*unstructured.Unstructured
	conversions    map[string]any // spec.conversion by the name of the definition
}

// A route leads to a handler from the services that its manifests name.
type route struct {
	handler  http.Handler
	services map[types.NamespacedName]bool // nil for all that nobody else has
}

// ownService is where kinds are converted that do not say who converts them.
var ownService = types.NamespacedName{Namespace: "kapoktest", Name: "webhooks"}

// loadWebhooks reads the manifests.
func loadWebhooks(all []webhooksAt) (*webhooks, error) {
	w := &webhooks{conversions: map[string]any{}}
	for _, at := range all {
		r := route{handler: at.handler}
		for _, path := range at.paths {
			objs, err := readPath(path)
			if err != nil {
				return nil, err
			}
			n := len(w.configurations) + len(w.conversions)
			for _, obj := range objs {
				for _, s := range w.take(obj) {
					if r.services == nil {
						r.services = map[types.NamespacedName]bool{}
					}
					r.services[s] = true
				}
			}
			if n == len(w.configurations)+len(w.conversions) {
				return nil, fmt.Errorf("%s: there is no webhook where one is expected", path)
			}
		}
		if len(at.paths) > 0 && r.services == nil {
			return nil, fmt.Errorf("%v: no webhook is at a service", at.paths)
		}
		w.routes = append(w.routes, r)
	}
	return w, nil
}

// take takes an object that says where webhooks are, and returns their services.
func (w *webhooks) take(obj *unstructured.Unstructured) (services []types.NamespacedName) {
	switch obj.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		w.configurations = append(w.configurations, obj)
		hooks, _, _ := unstructured.NestedSlice(obj.Object, "webhooks")
		for _, hook := range hooks {
			if hook, ok := hook.(map[string]any); ok {
				services = appendService(services, hook)
			}
		}
	case definitionKind:
		if conversion, ok, _ := unstructured.NestedMap(obj.Object, "spec", "conversion"); ok {
			w.conversions[obj.GetName()] = conversion
			hook, _, _ := unstructured.NestedMap(conversion, "webhook")
			services = appendService(services, hook)
		}
	}
	return services
}

// appendService adds the service of the clientConfig of a webhook, if it is at one.
func appendService(to []types.NamespacedName, hook map[string]any) []types.NamespacedName {
	service, ok, _ := unstructured.NestedMap(hook, "clientConfig", "service")
	if !ok {
		return to
	}
	namespace, _, _ := unstructured.NestedString(service, "namespace")
	name, _, _ := unstructured.NestedString(service, "name")
	return append(to, types.NamespacedName{Namespace: namespace, Name: name})
}

// handler is for kapok.WebhookOptions.
func (w *webhooks) handler(namespace, name string) http.Handler {
	service := types.NamespacedName{Namespace: namespace, Name: name}
	if service == ownService {
		return w.routes[0].handler
	}
	for _, r := range w.routes {
		if r.services[service] {
			return r.handler
		}
	}
	for _, r := range w.routes {
		if r.services == nil {
			return r.handler
		}
	}
	return nil
}

// convert has definitions converted as patches and Go types say.
func (w *webhooks) convert(crds []*unstructured.Unstructured, scheme *runtime.Scheme) error {
	if len(w.routes) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, crd := range crds {
		known[crd.GetName()] = true
		strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
		conversion, patched := w.conversions[crd.GetName()]
		switch {
		case patched:
		case strategy == "" && hasHub(crd, scheme):
			conversion = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig": map[string]any{"service": map[string]any{
					"namespace": ownService.Namespace, "name": ownService.Name, "path": "/convert",
				}},
			}}
		default:
			conversion, _, _ = unstructured.NestedMap(crd.Object, "spec", "conversion")
		}
		if conversion, ok := conversion.(map[string]any); ok && len(conversion) > 0 {
			w.trust(conversion)
			if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
				return fmt.Errorf("conversion of %s: %w", crd.GetName(), err)
			}
		}
	}
	for name := range w.conversions {
		if !known[name] {
			return fmt.Errorf("conversion of %s: there is no such CustomResourceDefinition", name)
		}
	}
	return nil
}

// trust takes the caBundle away from a conversion in memory: where manifests have something in its place that is no certificate, for
// others to fill in, the kind would not be served.
func (w *webhooks) trust(conversion map[string]any) {
	hook, _, _ := unstructured.NestedMap(conversion, "webhook")
	for _, s := range appendService(nil, hook) {
		if w.handler(s.Namespace, s.Name) != nil {
			unstructured.RemoveNestedField(conversion, "webhook", "clientConfig", "caBundle")
		}
	}
}

// hub is a version of a kind through which all conversions go, in Kapok and in controller-runtime.
var hub = reflect.TypeFor[interface{ Hub() }]()

// hasHub says whether the Go types of a definition's kind convert each other.
func hasHub(crd *unstructured.Unstructured, scheme *runtime.Scheme) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if len(versions) < 2 {
		return false
	}
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Group == group && gvk.Kind == kind && reflect.PointerTo(t).Implements(hub) {
			return true
		}
	}
	return false
}

// configure creates the configurations of webhooks.
func (e *Env) configure(w *webhooks) {
	e.t.Helper()
	for _, c := range w.configurations {
		if err := e.create(c); err != nil {
			e.t.Fatalf("create %s: %v", e.describe(c), err)
		}
	}
}
