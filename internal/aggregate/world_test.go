package aggregate_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a store, a network in memory, and the parts of this package on both. It belongs in a
// synctest bubble.
type world struct {
	testing.TB
	store      *resource.Store
	aggregator *aggregate.Aggregator
	probes     *aggregate.Probes
	authority  *authority

	mu        sync.Mutex
	listeners map[string]*listener
	calls     []string // requests on the network
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		defer j.Close()
		st, err := state.Open(t.Context(), j, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{
			TB: t, store: resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...)),
			listeners: map[string]*listener{}, authority: newAuthority(t),
		}
		if err := bootstrap.EnsureNamespaces(t.Context(), w.store); err != nil {
			t.Fatal(err)
		}
		o := aggregate.Options{Store: w.store, Dial: w.dial, Logger: slog.New(slog.DiscardHandler), ClientCertificate: w.authority.client}
		if w.aggregator, err = aggregate.Start(o); err != nil {
			t.Fatal(err)
		}
		defer w.aggregator.Close()
		if w.probes, err = aggregate.StartProbes(o); err != nil {
			t.Fatal(err)
		}
		defer w.probes.Close()
		test(t, w)
	})
}

func (w *world) definition(kind string) *resource.Definition {
	group := map[string]string{"APIService": apiregistrationv1.GroupName, "EndpointSlice": "discovery.k8s.io"}[kind]
	return w.store.Registry().Load().Kind(schema.GroupKind{Group: group, Kind: kind})
}

// put creates or replaces an object, given as YAML without apiVersion.
func (w *world) put(text string) {
	w.Helper()
	var obj map[string]any
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		w.Fatal(err)
	}
	d := w.definition(obj["kind"].(string))
	obj["apiVersion"] = d.APIVersion(d.Storage)
	metadata := obj["metadata"].(map[string]any)
	r := &resource.Request{Definition: d, Version: d.Storage, Manager: "test", FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {}}
	if d.Namespaced {
		metadata["namespace"], r.Namespace = "default", "default"
	}
	data, err := json.Marshal(obj)
	if err != nil {
		w.Fatal(err)
	}
	_, err = w.store.Create(w.Context(), r, resource.Body{Data: data})
	if apierrors.IsAlreadyExists(err) {
		r.Name = metadata["name"].(string)
		_, err = w.store.Edit(w.Context(), r, func(live resource.Tree) error {
			for _, part := range []string{"spec", "endpoints", "ports"} {
				if v, ok := obj[part]; ok {
					raw, _ := json.Marshal(v)
					var tree any
					if err := json.Unmarshal(raw, &tree); err != nil {
						return err
					}
					live[part] = integers(tree)
				}
			}
			return nil
		})
	}
	if err != nil {
		w.Fatalf("%s\n%v", text, err)
	}
	synctest.Wait()
}

// integers turns whole numbers into int64, as in trees.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		return int64(v)
	}
	return v
}

func (w *world) remove(kind, name string) {
	w.Helper()
	d := w.definition(kind)
	r := &resource.Request{Definition: d, Version: d.Storage, Name: name, Warn: func(string) {}}
	if d.Namespaced {
		r.Namespace = "default"
	}
	if _, err := w.store.Delete(w.Context(), r, &metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

const thingsService = `{kind: Service, metadata: {name: things}, spec: {type: ExternalName, externalName: things.test, ports: [{port: 443, targetPort: 8443}]}}`

// things registers v1 of the group things.example.com, whose server is at things.test:8443.
func (w *world) things() {
	w.put(thingsService)
	w.register("v1")
}

func (w *world) register(version string) {
	ca, err := json.Marshal(w.authority.pem())
	if err != nil {
		w.Fatal(err)
	}
	w.put(`{kind: APIService, metadata: {name: ` + version + `.things.example.com}, spec: {group: things.example.com, version: ` + version + `,
		groupPriorityMinimum: 900, versionPriority: 20, caBundle: ` + string(ca) + `, service: {namespace: default, name: things}}}`)
}

func (w *world) apiService(name string) *apiregistrationv1.APIService {
	w.Helper()
	o, _ := w.store.State().Get(w.definition("APIService").Key("", name))
	if o == nil {
		return nil
	}
	s := &apiregistrationv1.APIService{}
	if err := json.Unmarshal(o.Raw, s); err != nil {
		w.Fatal(err)
	}
	return s
}

// condition returns status, reason and message of the condition Available of v1.things.example.com.
func (w *world) condition() string {
	w.Helper()
	s := w.apiService("v1.things.example.com")
	if len(s.Status.Conditions) == 0 {
		return ""
	}
	c := s.Status.Conditions[0]
	return string(c.Type) + " " + string(c.Status) + " " + c.Reason + ": " + c.Message
}

const passed = "Available True Passed: all checks passed"

func (w *world) wantCondition(want string) {
	w.Helper()
	if got := w.condition(); got != want {
		w.Errorf("the condition is %q, want %q", got, want)
	}
}

func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	w.calls = append(w.calls, "dial "+address)
	l := w.listeners[address]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	return l.dial()
}

// serve serves an address over TLS, with a certificate for a host, until the returned function is
// called.
func (w *world) serve(address, host string, h http.HandlerFunc) (stop func()) {
	w.Helper()
	return w.listen(address, h, &tls.Config{
		Certificates: []tls.Certificate{w.authority.issue(w, host)},
		ClientAuth:   tls.RequestClientCert,
		NextProtos:   []string{"h2", "http/1.1"},
	})
}

func (w *world) listen(address string, h http.HandlerFunc, secure *tls.Config) (stop func()) {
	l := newListener()
	w.mu.Lock()
	w.listeners[address] = l
	w.mu.Unlock()
	server := &http.Server{Handler: h, TLSConfig: secure, ErrorLog: log.New(io.Discard, "", 0)}
	var done sync.WaitGroup
	done.Go(func() {
		if secure == nil {
			server.Serve(l)
		} else {
			server.ServeTLS(l, "", "")
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			w.mu.Lock()
			delete(w.listeners, address)
			w.mu.Unlock()
			server.Close()
			done.Wait()
			synctest.Wait()
		})
	}
	w.Cleanup(stop)
	return stop
}

// front returns a client of a server that proxies the group versions of the aggregator, as user
// alice.
func (w *world) front() *http.Client {
	w.listen("front:80", func(rw http.ResponseWriter, r *http.Request) {
		remote := w.aggregator.Load().Find(r.URL.Path)
		if remote == nil {
			http.Error(rw, "not found", http.StatusNotFound)
			return
		}
		alice := &authn.User{Name: "alice", UID: "7", Groups: []string{"staff", "system:authenticated"}, Extra: map[string][]string{"example.com/why": {"a b"}}}
		if err := remote.Serve(rw, r, alice); err != nil {
			http.Error(rw, err.Error(), http.StatusGatewayTimeout)
		}
	}, nil)
	t := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return w.dial(ctx, network, "front:80")
	}}
	w.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get sends a GET request, and returns the status code, the body and the headers.
func (w *world) get(c *http.Client, path string, headers ...string) (int, string, http.Header) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://front"+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return answer.StatusCode, string(body) + "\n" + err.Error(), answer.Header
	}
	return answer.StatusCode, string(body), answer.Header
}

// authority signs certificates of servers and of the proxy.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	own  *tls.Certificate
}

func newAuthority(t testing.TB) *authority {
	a := &authority{}
	c := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	own := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "front-proxy-client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	a.own = &own
	return a
}

func (a *authority) client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.own, nil }

func (a *authority) issue(t testing.TB, host string) tls.Certificate {
	return a.sign(t, &x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (a *authority) sign(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// lines returns a function that reads the lines of a body one by one.
func lines(r io.Reader) func() string {
	b := bufio.NewReader(r)
	return func() string {
		line, err := b.ReadString('\n')
		if err != nil {
			return strings.TrimSpace(line + err.Error())
		}
		return strings.TrimSpace(line)
	}
}
