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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// manifests are a configuration of each kind, as controller-gen generates them.
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

// everything returns options with all objects in the manifests.
func everything(o CertificateOptions) CertificateOptions {
	if o.Hosts == nil {
		o.Hosts = ServiceHosts(client.ObjectKey{Namespace: "system", Name: "hook"})
	}
	o.MutatingWebhookConfigurations = []string{"mutating"}
	o.ValidatingWebhookConfigurations = []string{"validating"}
	o.CustomResourceDefinitions = []string{"widgets.things.example.com"}
	return o
}

// read returns the clientConfigs in all objects of the manifests.
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

// startKapok starts a server in memory.
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

// TestCABundle checks that the authority is added to all named objects, in each place with a
// clientConfig, and to nothing else.
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
		// The definition is changed concurrently: this causes a conflict, and a retry.
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
		// Correct objects are not written again, and removed data is restored.
		if err := certificates.Ensure(silent(t.Context())); err != nil || len(w.written()) > 0 {
			t.Errorf("correct objects are written again, %v", err)
		}
	})
}

// TestURL checks programs on the developer's machine, which are reached by URL.
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

// TestRotation covers six days: certificates are replaced in time, and clients trust the presented
// certificate at all times, with a configuration read an hour ago and, after the switch, with one
// read now.
func TestRotation(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWriter(t, startKapok(t))
				install(t, w)
				options := everything(CertificateOptions{Validity: 53 * time.Hour, Interval: 2 * time.Hour}) // renewed an hour earlier
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
					time.Sleep(17 * time.Minute) // replicas do not start at the same time
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
								t.Errorf("replica %d presents a certificate that expires in %v", i, left)
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

// TestReplicas checks that replicas that start at the same time agree on one certificate.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := startKapok(t)
		w := newWriter(t, config)
		install(t, w)
		var all []*Certificates
		for i := range 5 {
			options := everything(CertificateOptions{Secret: client.ObjectKey{Namespace: "default", Name: "serving"}})
			if i > 2 {
				options.Hosts = append(options.Hosts, "hook.example.com") // as in a newer release
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

// TestCertificateErrors checks that failures are retried and logged, and that conflicts are not
// logged.
func TestCertificateErrors(t *testing.T) {
	conflict := func(kind string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: strings.ToLower(kind)}, "x", errors.New("another write was faster"))
	}
	secret := client.ObjectKey{Namespace: "default", Name: "serving"}
	tests := map[string]struct {
		options CertificateOptions
		before  func(n int, verb, kind string) error
		want    string // part of the error; default: none
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
		}, want: "MutatingWebhookConfiguration mutating: too many conflicts with other writers"},
		"a Secret that the client must not read": {options: CertificateOptions{Secret: secret}, before: func(_ int, verb, kind string) error {
			if kind == "Secret" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "serving", errors.New("no"))
			}
			return nil
		}, want: "secret default/serving: "},
		"a Secret that comes and goes": {options: CertificateOptions{Secret: secret}, before: func(_ int, verb, kind string) error {
			if kind == "Secret" && verb == "create" {
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "serving")
			}
			return nil
		}, want: "secret default/serving: too many conflicts with other writers"},
		"no namespace": {options: CertificateOptions{Secret: client.ObjectKey{Namespace: "nowhere", Name: "serving"}}, want: `create secret nowhere/serving: namespaces "nowhere" not found`},
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

// TestForeignSecret checks that an incomplete Secret is completed, and that other keys in it are
// kept.
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
		// Deleted data is restored.
		before := first.CABundle()
		if err := w.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default").
			Delete(t.Context(), "serving", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := first.Ensure(silent(t.Context())); err != nil || string(first.next.bundle) != string(before) {
			t.Errorf("the certificate changed after the Secret was deleted, %v", err)
		}
		// A later replica uses the Secret unchanged.
		w.written()
		second := SelfSigned(w, options)
		if err := second.Ensure(silent(t.Context())); err != nil || len(w.written()) > 0 || !second.current.Load().equal(first.current.Load()) {
			t.Errorf("the second replica has a certificate of its own, %v", err)
		}
	})
}

// TestUnreachableConfiguration checks that the old certificate is used as long as the authority
// cannot be written to an object, but not after it expired. An object that does not exist delays
// nothing, and gets the authority when it is created.
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
			t.Error("the certificate was not replaced on the seventh day")
		}
		w.setBefore(func(verb, kind string) error {
			if verb == "update" && strings.HasPrefix(kind, "Validating") {
				return errors.New("out of order")
			}
			return nil
		})
		if show(7*day) != second {
			t.Error("the certificate was replaced although a write of the authority failed")
		}
		if show(3*day) == second {
			t.Error("the certificate is used after it expired")
		}
		w.setBefore(nil)
		if err := w.Create(t.Context(), parse(t, manifests)[2]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for name, config := range read(t, w) {
			if string(bundleOf(t, config)) != string(certificates.CABundle()) {
				t.Errorf("%s does not have the authority", name)
			}
		}
		cancel()
		<-done
	})
}

func TestSelfSigned(t *testing.T) {
	now := time.Now()
	if _, err := newSelfSigned(nil, time.Hour, now, nil); err == nil {
		t.Error("a certificate without a host is accepted")
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
			t.Errorf("a new certificate is not valid: %v", err)
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
		t.Errorf("expired authorities are kept, %v", err)
	}
}
