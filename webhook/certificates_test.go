package webhook

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// writer is as much of a client of unstructured objects as Certificates need.
type writer struct {
	client.Client // nil
	dynamic       dynamic.Interface
	mu            sync.Mutex
	before        func(verb, kind string) error // is called before each request; its error is that of the request
	writes        []string
}

func newWriter(t *testing.T, config *rest.Config) *writer {
	t.Helper()
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{dynamic: d}
}

func (w *writer) of(verb string, obj client.Object, namespace string) (dynamic.ResourceInterface, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	w.mu.Lock()
	defer w.mu.Unlock()
	if verb != "get" {
		w.writes = append(w.writes, verb+" "+gvk.Kind)
	}
	if w.before != nil {
		if err := w.before(verb, gvk.Kind); err != nil {
			return nil, err
		}
	}
	return w.dynamic.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")).Namespace(namespace), nil
}

func into(obj client.Object, got *unstructured.Unstructured, err error) error {
	if err == nil {
		obj.(*unstructured.Unstructured).Object = got.Object
	}
	return err
}

func (w *writer) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r, err := w.of("get", obj, key.Namespace)
	if err != nil {
		return err
	}
	got, err := r.Get(ctx, key.Name, metav1.GetOptions{})
	return into(obj, got, err)
}

func (w *writer) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	r, err := w.of("create", obj, obj.GetNamespace())
	if err != nil {
		return err
	}
	got, err := r.Create(ctx, obj.(*unstructured.Unstructured), metav1.CreateOptions{})
	return into(obj, got, err)
}

func (w *writer) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	r, err := w.of("update", obj, obj.GetNamespace())
	if err != nil {
		return err
	}
	got, err := r.Update(ctx, obj.(*unstructured.Unstructured), metav1.UpdateOptions{})
	return into(obj, got, err)
}

func (w *writer) setBefore(before func(verb, kind string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

func (w *writer) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.writes = nil }()
	return slices.Sorted(slices.Values(w.writes))
}

// manifests are a configuration of each kind, as controller-gen makes them.
const manifests = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating, labels: {keep: me}}
webhooks:
- name: mwidget.kb.io
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 7
  clientConfig: {service: {name: hook, namespace: system, path: /mutate-things-example-com-v1-widget}}
  rules: [{apiGroups: [things.example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks:
- name: vwidget.kb.io
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: hook, namespace: system, path: /validate-things-example-com-v1-widget}, caBundle: T0xE}
  rules: [{apiGroups: [things.example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]
- name: another.kb.io
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: https://example.com/validate}
  rules: [{apiGroups: [things.example.com], apiVersions: [v1], operations: [DELETE], resources: [widgets]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.things.example.com}
spec:
  group: things.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: hook, namespace: system, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: {type: string}}}}}}
  - name: v1alpha1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: string}}}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {width: {type: integer}, height: {type: integer}}}}
`

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

func install(t *testing.T, w *writer) {
	t.Helper()
	for _, obj := range parse(t, manifests) {
		if err := w.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	w.written()
}

// everything names all that is in the manifests.
func everything(o CertificateOptions) CertificateOptions {
	if o.Hosts == nil {
		o.Hosts = ServiceHosts(client.ObjectKey{Namespace: "system", Name: "hook"})
	}
	o.MutatingWebhookConfigurations = []string{"mutating"}
	o.ValidatingWebhookConfigurations = []string{"validating"}
	o.CustomResourceDefinitions = []string{"widgets.things.example.com"}
	return o
}

// read returns the clientConfigs of all that is in the manifests.
func read(t *testing.T, w *writer) map[string]map[string]any {
	t.Helper()
	configs := map[string]map[string]any{}
	for _, obj := range parse(t, manifests) {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(obj.GroupVersionKind())
		if err := w.Get(t.Context(), client.ObjectKey{Name: obj.GetName()}, got); err != nil {
			t.Fatal(err)
		}
		clients, err := clientConfigs(got.Object)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range clients {
			configs[fmt.Sprint(obj.GetName(), i)] = c
		}
	}
	return configs
}

func bundleOf(t *testing.T, config map[string]any) []byte {
	t.Helper()
	bundle, err := base64.StdEncoding.DecodeString(config["caBundle"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// startKapok starts a server, in memory.
func startKapok(t *testing.T) *rest.Config {
	t.Helper()
	s, err := kapok.Start(context.Background(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s.Config()
}

func silent(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

// The authority is put into all that is named, wherever a webhook is said to be, and into nothing else.
func TestCABundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, startKapok(t))
		install(t, w)
		before := read(t, w)
		certificates := SelfSigned(w, everything(CertificateOptions{}))
		if _, err := certificates.GetCertificate(nil); err == nil || certificates.CABundle() != nil {
			t.Error("there is a certificate before there can be one")
		}
		if err := certificates.Ensure(silent(t.Context())); err != nil {
			t.Fatal(err)
		}
		// The definition changes by itself, too: then there is a conflict, and another try.
		if got, want := fmt.Sprint(slices.Compact(w.written())), "[update CustomResourceDefinition update MutatingWebhookConfiguration update ValidatingWebhookConfiguration]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for name, config := range read(t, w) {
			if got := bundleOf(t, config); string(got) != string(certificates.CABundle()) {
				t.Errorf("%s: got the bundle %s", name, got)
			}
			config["caBundle"] = before[name]["caBundle"]
			if before[name]["caBundle"] == nil {
				delete(config, "caBundle")
			}
			if got, want := fmt.Sprint(config), fmt.Sprint(before[name]); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		cert, err := certificates.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(certificates.CABundle())
		for host, ok := range map[string]bool{"hook.system.svc": true, "hook.system.svc.cluster.local": true, "other.system.svc": false} {
			if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: time.Now()}); (err == nil) != ok {
				t.Errorf("%s: %v", host, err)
			}
		}
		// What is as it should be is not written again, and what somebody takes away is put back.
		if err := certificates.Ensure(silent(t.Context())); err != nil || len(w.written()) > 0 {
			t.Errorf("all is written again, %v", err)
		}
	})
}

// Programs on the developer's machine are reached by URL.
func TestURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, startKapok(t))
		install(t, w)
		certificates := SelfSigned(w, everything(CertificateOptions{Hosts: []string{"127.0.0.1", "::1", "localhost"}, URL: "https://127.0.0.1:9443/"}))
		if err := certificates.Ensure(silent(t.Context())); err != nil {
			t.Fatal(err)
		}
		configs := read(t, w)
		for name, url := range map[string]string{
			"mutating0": "https://127.0.0.1:9443/mutate-things-example-com-v1-widget", "validating0": "https://127.0.0.1:9443/validate-things-example-com-v1-widget",
			"validating1": "https://example.com/validate", "widgets.things.example.com0": "https://127.0.0.1:9443/convert",
		} {
			if configs[name]["url"] != url || configs[name]["service"] != nil {
				t.Errorf("%s: got %v, want %s", name, configs[name], url)
			}
		}
	})
}

// Six days: certificates are replaced in time, what is shown is trusted at all times by who has looked up the configuration
// an hour ago, and after the switch by who looks now.
func TestRotation(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWriter(t, startKapok(t))
				install(t, w)
				options := everything(CertificateOptions{Validity: 53 * time.Hour, Interval: 2 * time.Hour}) // and an hour before
				replicas := 1
				if shared {
					options.Secret = client.ObjectKey{Namespace: "default", Name: "serving"}
					replicas = 3
				}
				var listeners []*memory
				var waits []func() error
				var stops []context.CancelFunc
				for range replicas {
					l := newMemory()
					stop, wait := run(t, NewServer(Options{Listener: l, Certificates: SelfSigned(w, options)}))
					listeners, waits, stops = append(listeners, l), append(waits, wait), append(stops, stop)
					time.Sleep(17 * time.Minute) // they do not start at once
				}
				serials := map[string]bool{}
				var known []byte
				for range 6 * 24 {
					if known != nil {
						roots := x509.NewCertPool()
						roots.AppendCertsFromPEM(known)
						for i, l := range listeners {
							cert, err := l.shake(t.Context(), "hook.system.svc", roots)
							if err != nil {
								t.Fatalf("replica %d at %v: %v", i, time.Now(), err)
							}
							if left := time.Until(cert.NotAfter); left < 12*time.Hour {
								t.Errorf("replica %d shows a certificate that expires in %v", i, left)
							}
							serials[cert.SerialNumber.String()] = true
						}
					}
					known = bundleOf(t, read(t, w)["mutating0"])
					time.Sleep(time.Hour)
				}
				if len(serials) < 4 || len(serials) > 5 {
					t.Errorf("%d certificates in 6 days, want one every 36 hours", len(serials))
				}
				if n := len(parseBundle(known)); n != 2 {
					t.Errorf("the bundle has %d authorities, want 2", n)
				}
				for i := range stops {
					stops[i]()
					if err := waits[i](); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// Replicas that start at a time agree on one certificate.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := startKapok(t)
		w := newWriter(t, config)
		install(t, w)
		var all []*Certificates
		for i := range 5 {
			options := everything(CertificateOptions{Secret: client.ObjectKey{Namespace: "default", Name: "serving"}})
			if i > 2 {
				options.Hosts = append(options.Hosts, "hook.example.com") // a newer release
			}
			all = append(all, SelfSigned(newWriter(t, config), options))
		}
		for range 4 {
			time.Sleep(time.Minute)
			var group sync.WaitGroup
			for _, c := range all {
				group.Go(func() {
					if err := c.Ensure(silent(t.Context())); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
		for i, c := range all {
			if !c.current.Load().equal(all[0].current.Load()) {
				t.Errorf("replica %d has another certificate", i)
			}
		}
		if err := all[0].current.Load().check([]string{"hook.example.com", "hook.system.svc"}, time.Now()); err != nil {
			t.Error(err)
		}
		if got := bundleOf(t, read(t, w)["validating1"]); string(got) != string(all[0].CABundle()) {
			t.Errorf("got the bundle %s", got)
		}
		secret := &unstructured.Unstructured{}
		secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "serving"}, secret); err != nil {
			t.Fatal(err)
		}
		if secret.Object["type"] != "kubernetes.io/tls" || string(secretData(secret, "tls.crt")) != string(all[0].current.Load().cert) {
			t.Errorf("got the Secret %v", secret.Object)
		}
	})
}

// What fails is tried again, and said; conflicts are nobody's business.
func TestCertificateErrors(t *testing.T) {
	conflict := func(kind string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: strings.ToLower(kind)}, "x", errors.New("somebody was faster"))
	}
	secret := client.ObjectKey{Namespace: "default", Name: "serving"}
	tests := map[string]struct {
		options CertificateOptions
		before  func(n int, verb, kind string) error
		want    string // in the error; default: none
	}{
		"no hosts": {options: CertificateOptions{Hosts: []string{}}, want: "no hosts"},
		"no base":  {options: CertificateOptions{URL: "http://127.0.0.1"}, want: `base URL "http://127.0.0.1": want https://HOST:PORT`},
		"a conflict": {before: func(n int, verb, kind string) error {
			if verb == "update" && n < 4 {
				return conflict(kind)
			}
			return nil
		}},
		"conflicts without end": {before: func(_ int, verb, kind string) error {
			if verb == "update" && strings.HasPrefix(kind, "Mutating") {
				return conflict(kind)
			}
			return nil
		}, want: "the MutatingWebhookConfiguration mutating: somebody else changes it again and again"},
		"a Secret nobody may read": {options: CertificateOptions{Secret: secret}, before: func(_ int, verb, kind string) error {
			if kind == "Secret" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "serving", errors.New("no"))
			}
			return nil
		}, want: "the Secret default/serving: "},
		"a Secret that comes and goes": {options: CertificateOptions{Secret: secret}, before: func(_ int, verb, kind string) error {
			if kind == "Secret" && verb == "create" {
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "serving")
			}
			return nil
		}, want: "the Secret default/serving: somebody else changes it again and again"},
		"no namespace": {options: CertificateOptions{Secret: client.ObjectKey{Namespace: "nowhere", Name: "serving"}}, want: `the Secret nowhere/serving cannot be made: namespaces "nowhere" not found`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWriter(t, startKapok(t))
				install(t, w)
				var n int
				if test.before != nil {
					w.before = func(verb, kind string) error { n++; return test.before(n, verb, kind) }
				}
				certificates := SelfSigned(w, everything(test.options))
				err := certificates.Ensure(silent(t.Context()))
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
			})
		})
	}
}

// A Secret with something else in it is made good, and keeps what is not ours.
func TestForeignSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, startKapok(t))
		secret := parse(t, `{apiVersion: v1, kind: Secret, metadata: {name: serving, namespace: default}, data: {other: T0xE, tls.crt: T0xE, tls.key: eA==}}`)[0]
		if err := w.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		options := CertificateOptions{Hosts: []string{"a"}, Secret: client.ObjectKey{Namespace: "default", Name: "serving"}}
		first := SelfSigned(w, options)
		if err := first.Ensure(silent(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := w.Get(t.Context(), options.Secret, secret); err != nil {
			t.Fatal(err)
		}
		if string(secretData(secret, "other")) != "OLD" || string(secretData(secret, "ca.crt")) != string(first.CABundle()) {
			t.Errorf("got %v", secret.Object["data"])
		}
		// What has been deleted is put back.
		before := first.CABundle()
		if err := w.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default").
			Delete(t.Context(), "serving", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := first.Ensure(silent(t.Context())); err != nil || string(first.next.bundle) != string(before) {
			t.Errorf("there is another certificate after the Secret was deleted, %v", err)
		}
		// Who comes later takes it as it is.
		w.written()
		second := SelfSigned(w, options)
		if err := second.Ensure(silent(t.Context())); err != nil || len(w.written()) > 0 || !second.current.Load().equal(first.current.Load()) {
			t.Errorf("the second replica has a certificate of its own, %v", err)
		}
	})
}

// As long as an object cannot be told of the new authority, the old certificate is shown, but not beyond its end. An object that does not
// exist delays nothing, and gets the authority when it is made.
func TestUnreachableConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, startKapok(t))
		for _, obj := range parse(t, manifests)[:2] { // without the definition
			if err := w.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(silent(t.Context()))
		certificates := SelfSigned(w, everything(CertificateOptions{Validity: 9 * 24 * time.Hour, Interval: time.Hour}))
		done := make(chan struct{})
		go func() {
			defer close(done)
			certificates.run(ctx)
		}()
		show := func(after time.Duration) string {
			time.Sleep(after)
			cert, err := certificates.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return cert.Leaf.SerialNumber.String()
		}
		const day = 24 * time.Hour
		first := show(day)
		second := show(6 * day)
		if second == first {
			t.Error("the certificate has not been replaced on the seventh day")
		}
		w.setBefore(func(verb, kind string) error {
			if verb == "update" && strings.HasPrefix(kind, "Validating") {
				return errors.New("out of order")
			}
			return nil
		})
		if show(7*day) != second {
			t.Error("the certificate was replaced though not everybody could be told")
		}
		if show(3*day) == second {
			t.Error("the certificate is shown beyond its end")
		}
		w.setBefore(nil)
		if err := w.Create(t.Context(), parse(t, manifests)[2]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for name, config := range read(t, w) {
			if string(bundleOf(t, config)) != string(certificates.CABundle()) {
				t.Errorf("%s has not been told", name)
			}
		}
		cancel()
		<-done
	})
}

// The whole way: configurations of admission webhooks and a definition with a conversion webhook, the server with certificates
// of its own, the API server that calls it.
func TestEndToEnd(t *testing.T) {
	t.Run("told", func(t *testing.T) { testEndToEnd(t, true) })
	t.Run("local", func(t *testing.T) { testEndToEnd(t, false) })
}

// testEndToEnd has the definition told where the webhook is, or makes it so that it knows.
func testEndToEnd(t *testing.T, tell bool) {
	w := newWriter(t, startKapok(t))
	listener := loopback(t)
	base := "https://" + listener.Addr().String()
	options := CertificateOptions{Hosts: []string{"127.0.0.1"}}
	if tell {
		install(t, w)
		options.URL = base
		options = everything(options)
	}
	certificates := SelfSigned(w, options)
	server := NewServer(Options{Listener: listener, Certificates: certificates})
	if err := NewWebhookManagedBy(mgr{widgetScheme(), server, logr.Discard()}, &WidgetV1{}).
		WithDefaulter(colors{}).WithValidator(sizes{}).Complete(); err != nil {
		t.Fatal(err)
	}
	if err := certificates.Ensure(silent(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !tell {
		for _, obj := range parse(t, manifests) {
			if err := LocalConfigurations(base, certificates.CABundle(), obj); err != nil {
				t.Fatal(err)
			}
			if err := w.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop, wait := run(t, server)
	in := func(version string) dynamic.ResourceInterface {
		return w.dynamic.Resource(v1.WithResource("widgets").GroupResource().WithVersion(version)).Namespace("default")
	}
	made := parse(t, `{apiVersion: things.example.com/v1alpha1, kind: Widget, metadata: {name: a}, size: "5"}`)[0]
	created, err := eventually(func() (*unstructured.Unstructured, error) {
		return in("v1alpha1").Create(t.Context(), made, metav1.CreateOptions{})
	})
	if err != nil {
		t.Fatal(err)
	}
	if created.Object["size"] != "5" {
		t.Errorf("got %v", created.Object)
	}
	got, err := in("v1beta1").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 1 || got.Items[0].Object["width"] != int64(5) || got.Items[0].Object["height"] != int64(5) || got.Items[0].GetUID() != created.GetUID() {
		t.Errorf("got %v", got.Items)
	}
	wrong := parse(t, `{apiVersion: things.example.com/v1alpha1, kind: Widget, metadata: {name: b}, size: "big"}`)[0]
	if _, err := in("v1alpha1").Create(t.Context(), wrong, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "size big is no number") {
		t.Errorf("got %v", err)
	}
	// Admission is asked about v1, whatever version is written.
	plain, err := in("v1").Create(t.Context(), parse(t, widget("d", ""))[0], metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(plain.Object, "spec", "color"); color != "blue by CREATE" {
		t.Errorf("got the color %q", color)
	}
	big := parse(t, `{apiVersion: things.example.com/v1alpha1, kind: Widget, metadata: {name: c}, size: "101"}`)[0]
	if _, err := in("v1alpha1").Create(t.Context(), big, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), `admission webhook "vwidget.kb.io" denied the request`) || !strings.Contains(err.Error(), "must be at most 100") {
		t.Errorf("got %v", err)
	}
	stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// eventually calls f until it succeeds, for ten seconds: an API server needs a moment to serve a definition as it has been changed.
func eventually[T any](f func() (T, error)) (got T, err error) {
	for start := time.Now(); time.Since(start) < 10*time.Second; {
		if got, err = f(); err == nil {
			return got, nil
		}
	}
	return got, err
}

func TestLocalConfigurations(t *testing.T) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{
		{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s", Namespace: "n", Path: new("/mutate")}}},
		{Name: "b", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s", Namespace: "n"}}},
	}}
	definition := parse(t, manifests)[2]
	if err := LocalConfigurations("https://localhost:9443", []byte("CA"), mutating, definition); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"https://localhost:9443/mutate", "https://localhost:9443"} {
		if c := mutating.Webhooks[i].ClientConfig; c.URL == nil || *c.URL != want || c.Service != nil || string(c.CABundle) != "CA" {
			t.Errorf("got %+v, want %s", c, want)
		}
	}
	configs, err := clientConfigs(definition.Object)
	if err != nil || configs[0]["url"] != "https://localhost:9443/convert" || configs[0]["caBundle"] != "Q0E=" {
		t.Errorf("got %v, %v", configs, err)
	}
	for want, obj := range map[string]client.Object{
		"its conversion has no webhook": &apiextensionsv1.CustomResourceDefinition{},
		"it has no webhooks":            &admissionregistrationv1.ValidatingWebhookConfiguration{},
		"webhook 0 has no clientConfig": parse(t, `{webhooks: [{name: a}]}`)[0],
		"webhook 0 is no object":        parse(t, `{webhooks: [a]}`)[0],
		"spec.conversion.strategy":      parse(t, `{spec: {conversion: {strategy: 5}}}`)[0],
		"webhook 0 is no object\x00crd": parse(t, `{spec: {conversion: {strategy: Webhook}}}`)[0],
	} {
		want, _, _ = strings.Cut(want, "\x00")
		if err := LocalConfigurations("https://localhost:9443", nil, obj); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, base := range []string{"", "http://localhost", "https://", "localhost:9443", "://"} {
		if err := LocalConfigurations(base, nil, mutating); err == nil {
			t.Errorf("the base %q is taken", base)
		}
	}
}

func TestSelfSigned(t *testing.T) {
	now := time.Now()
	if _, err := newSelfSigned(nil, time.Hour, now, nil); err == nil {
		t.Error("there is a certificate for no host")
	}
	var bundle []byte
	for i := range 2 * maxAuthorities {
		made, err := newSelfSigned([]string{"a", "::1"}, time.Hour, now, append([]byte("no PEM\n"), bundle...))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(parseBundle(made.bundle)); n != min(i+1, maxAuthorities) {
			t.Errorf("%d authorities after %d certificates", n, i+1)
		}
		bundle = made.bundle
		if again, err := parseSelfSigned(made.cert, made.key, made.bundle); err != nil || again.due([]string{"a", "::1"}, now) != nil || !again.equal(made) {
			t.Errorf("what is made is not good: %v", err)
		}
		for want, err := range map[string]error{
			"expires in": made.due(nil, now.Add(30*time.Minute)), "expired": made.check(nil, now.Add(2*time.Hour)), "not b": made.check([]string{"b"}, now),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	later, err := newSelfSigned([]string{"a"}, time.Hour, now.Add(2*time.Hour), bundle)
	if err != nil || len(parseBundle(later.bundle)) != 1 {
		t.Errorf("authorities that have expired stay, %v", err)
	}
}
