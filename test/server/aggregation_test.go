package server_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// things starts a server of v1 of things.example.com.
func things(t *testing.T) *httptest.Server {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis":
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			io.WriteString(w, `{"items":[{"metadata":{"name":"things.example.com"},"versions":[{"version":"v1","resources":[
				{"resource":"things","scope":"Namespaced","singularResource":"thing","verbs":["list"],"responseKind":{"group":"","version":"","kind":"Thing"}}]}]}]}`)
		case "/apis/things.example.com/v1":
			io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"things.example.com/v1","resources":[]}`)
		case "/apis/things.example.com/v1/who":
			json.NewEncoder(w).Encode(r.Header["X-Remote-User"])
		case "/openapi/v2":
			io.WriteString(w, `{"swagger":"2.0","paths":{"/apis/things.example.com/v1/things":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/com.example.Thing"}}}}}},
				"definitions":{"com.example.Thing":{"type":"object"}}}`)
		case "/openapi/v3":
			io.WriteString(w, `{"paths":{"apis/things.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/things.example.com/v1?hash=A"}}}`)
		case "/openapi/v3/apis/things.example.com/v1":
			io.WriteString(w, `{"openapi":"3.0.0","info":{"title":"Things"}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func register(t *testing.T, client *kubernetes.Clientset, server *httptest.Server) {
	t.Helper()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/services": `{"metadata":{"name":"things"},"spec":{"type":"ExternalName","externalName":"localhost","ports":[{"port":443,"targetPort":` + port + `}]}}`,
		"/apis/apiregistration.k8s.io/v1/apiservices": `{"metadata":{"name":"v1.things.example.com"},"spec":{"group":"things.example.com","version":"v1",
			"groupPriorityMinimum":17850,"versionPriority":15,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"things"}}}`,
	} {
		if err := client.RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// The resources of another server appear in discovery as if this one served them.
func TestAggregation(t *testing.T) {
	s, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, accept ...string) (string, error) {
		r := client.RESTClient().Get().RequestURI(path)
		for _, a := range accept {
			r.SetHeader("Accept", a)
		}
		body, err := r.DoRaw(t.Context())
		return string(body), err
	}
	register(t, client, things(t))
	until(t, func() error {
		_, err := get("/apis/things.example.com/v1")
		return err
	})
	until(t, func() error { // the aggregated document
		groups, resources, err := client.Discovery().ServerGroupsAndResources()
		if err != nil {
			return err
		}
		var names []string
		for _, g := range groups[:4] {
			names = append(names, g.Name)
		}
		if want := []string{"", "apiregistration.k8s.io", "things.example.com", "apps"}; !slices.Equal(names, want) {
			t.Errorf("the first groups are %q, want %q", names, want)
		}
		found := discovery.FilteredBy(discovery.ResourcePredicateFunc(func(gv string, r *metav1.APIResource) bool {
			return gv == "things.example.com/v1" && r.Name == "things" && r.Kind == "Thing"
		}), resources)
		if len(found) == 0 {
			return errors.New("there are no things")
		}
		return nil
	})
	until(t, func() error {
		body, err := get("/openapi/v3")
		if err == nil && !strings.Contains(body, `"apis/things.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/things.example.com/v1?hash=A"}`) {
			err = errors.New(body)
		}
		return err
	})
	for path, want := range map[string]string{
		"/apis":                           `{"groupVersion":"things.example.com/v1","version":"v1"}`,
		"/apis/things.example.com":        `"preferredVersion":{"groupVersion":"things.example.com/v1","version":"v1"}`,
		"/apis/things.example.com/v1/who": `["kubernetes-admin"]`,
		"/openapi/v3/apis/things.example.com/v1?hash=A": `"title":"Things"`,
		"/openapi/v2":   `"com.example.Thing":{"type":"object"}`,
		"/":             `"/apis/things.example.com/v1"`,
		"/apis/apps/v1": `"deployments"`,
	} {
		if body, err := get(path); err != nil || !strings.Contains(body, want) {
			t.Errorf("%s: %v, %d bytes without %s", path, err, len(body), want)
		}
	}
	if body, err := client.Discovery().OpenAPISchema(); err != nil || !strings.Contains(fmt.Sprint(body.Paths), "/apis/things.example.com/v1/things") {
		t.Errorf("the OpenAPI v2 document in protobuf: %v", err)
	}
	if err := client.RESTClient().Delete().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/v1.things.example.com").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		if _, err := get("/apis/things.example.com"); err == nil {
			return errors.New("the group is still there")
		}
		return nil
	})
}

// TestFrontProxies checks that, over the socket, the server presents the client certificate that it
// publishes, and trusts the configured front proxies.
func TestFrontProxies(t *testing.T) {
	dir := t.TempDir()
	first, err := kapok.Start(t.Context(), kapok.Options{DataDir: filepath.Join(dir, "first"), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	client, err := kubernetes.NewForConfig(first.Config())
	if err != nil {
		t.Fatal(err)
	}
	told, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ca := []byte(told.Data["requestheader-client-ca-file"])
	if block, _ := pem.Decode(ca); block == nil || told.Data["client-ca-file"] == "" || told.Data["requestheader-allowed-names"] != `["front-proxy-client"]` {
		t.Fatalf("published: %v", told.Data)
	}
	authorities := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authorities, ca, 0o600); err != nil {
		t.Fatal(err)
	}

	// The second server trusts the first one.
	second, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", Aggregation: kapok.AggregationOptions{
		RequestHeader: kapok.RequestHeaderOptions{
			ClientCAFile: authorities, UsernameHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	pair, err := os.ReadFile(filepath.Join(dir, "first", "pki", "front-proxy.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		pair []byte
		want int
	}{{"the proxy", pair, http.StatusOK}, {"no proxy", nil, http.StatusForbidden}} {
		config := &rest.Config{Host: "https://" + second.Address(), TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: tc.pair, KeyData: tc.pair}}
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api/v1/namespaces", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Remote-User", "alice")
		r.Header.Set("X-Remote-Group", "system:masters")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.name, answer.StatusCode, tc.want, bytes.TrimSpace(body))
		}
		if idle, ok := transport.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}
}

func TestAggregationOptions(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		options kapok.AggregationOptions
		want    string
	}{
		"no key":         {kapok.AggregationOptions{ProxyClientCertFile: garbage}, "ProxyClientKeyFile is \"\": set both or neither"},
		"no certificate": {kapok.AggregationOptions{ProxyClientCertFile: garbage, ProxyClientKeyFile: garbage}, "ProxyClientCertFile and ProxyClientKeyFile: tls: failed to find any PEM data"},
		"no file":        {kapok.AggregationOptions{RequestHeader: kapok.RequestHeaderOptions{ClientCAFile: garbage + "x"}}, "no such file"},
		"no authority":   {kapok.AggregationOptions{RequestHeader: kapok.RequestHeaderOptions{ClientCAFile: garbage}}, "holds no certificate in PEM"},
		"empty header":   {kapok.AggregationOptions{RequestHeader: kapok.RequestHeaderOptions{UsernameHeaders: []string{" "}}}, "UsernameHeaders has an empty entry"},
	} {
		_, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", Aggregation: tc.options})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// TestSeatsOfOthers follows more logs of another server than this one serves requests at a time:
// what is passed on occupies no seat.
func TestSeatsOfOthers(t *testing.T) {
	s, err := kapok.Start(t.Context(), kapok.Options{
		Fairness: kapok.FairnessOptions{Unfair: true, MaxRequestsInFlight: 1, MaxMutatingRequestsInFlight: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	plain := things(t)
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			plain.Config.Handler.ServeHTTP(w, r)
			return
		}
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(other.Close)
	register(t, client, other)
	const role = `{"metadata":{"name":"bob"},"rules":[{"apiGroups":["things.example.com"],"resources":["things/log"],"verbs":["get"]}]}`
	const binding = `{"metadata":{"name":"bob"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bob"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"bob"}}`
	for path, body := range map[string]string{"clusterroles": role, "clusterrolebindings": binding} {
		if err := client.RESTClient().Post().AbsPath("/apis/rbac.authorization.k8s.io/v1/"+path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() error {
		_, err := client.RESTClient().Get().RequestURI("/apis/things.example.com/v1").DoRaw(t.Context())
		return err
	})
	bob := clientOf(s, "bob")
	for i := range 3 {
		stream, err := bob.RESTClient().Get().RequestURI("/apis/things.example.com/v1/things/one/log").Stream(t.Context())
		if err != nil {
			t.Fatalf("log %d: %v", i, err)
		}
		defer stream.Close()
		if _, err := io.ReadFull(stream, make([]byte, len("begun"))); err != nil {
			t.Fatalf("log %d: %v", i, err)
		}
	}
}
