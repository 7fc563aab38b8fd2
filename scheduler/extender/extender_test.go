package extender

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns an extender whose server answers each verb with a text, and the requests.
func serve(t *testing.T, c configv1.Extender, answers map[string]string) (*Extender, map[string]string) {
	t.Helper()
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		verb := strings.TrimPrefix(r.URL.Path, "/scheduler/")
		got[verb] = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
		answer, has := answers[verb]
		if !has {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte(answer))
	}))
	c.URLPrefix = server.URL + "/scheduler/"
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.CloseIdle()
		server.Close()
	})
	return e, got
}

func named(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

var (
	testPod   = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-p"}}
	testNodes = []*corev1.Node{named("a"), named("b")}
)

// TestFilter checks requests and responses of both kinds of extenders, and bad responses.
func TestFilter(t *testing.T) {
	names, nodes := configv1.Extender{FilterVerb: "filter", NodeCacheCapable: true}, configv1.Extender{FilterVerb: "filter"}
	for _, tc := range []struct {
		name     string
		config   configv1.Extender
		response string
		want     *Filtered
		err      string
	}{
		{"names", names, `{"NodeNames": ["a"], "FailedNodes": {"b": "no"}}`, &Filtered{map[string]bool{"a": true}, map[string]string{"b": "no"}, nil}, ""},
		{"names, lower case", names, `{"nodenames": ["b", "b"], "failedAndUnresolvableNodes": {"a": "never"}}`, &Filtered{map[string]bool{"b": true}, nil, map[string]string{"a": "never"}}, ""},
		{"nodes", nodes, `{"Nodes": {"items": [{"metadata": {"name": "b"}}]}}`, &Filtered{map[string]bool{"b": true}, nil, nil}, ""},
		{"names without a cache", nodes, `{"NodeNames": ["a"]}`, &Filtered{map[string]bool{}, nil, nil}, ""},
		{"none", names, `{}`, &Filtered{map[string]bool{}, nil, nil}, ""},
		{"null", names, `null`, &Filtered{map[string]bool{}, nil, nil}, ""},
		{"error", names, `{"Error": "out of order", "NodeNames": ["a"]}`, nil, "out of order"},
		{"unknown name", names, `{"NodeNames": ["c"]}`, nil, `claims a filtered node "c" which is not found in the input node list`},
		{"unknown node", nodes, `{"Nodes": {"items": [{"metadata": {"name": "c"}}]}}`, nil, `claims a filtered node "c" which is not found in the input node list`},
		{"no JSON", names, `<html>`, nil, "decode response: invalid character"},
		{"another type", names, `{"NodeNames": {"a": true}}`, nil, "decode response: json: cannot unmarshal"},
		{"cut", names, `{"NodeNames": ["a"`, nil, "decode response: unexpected EOF"},
		{"empty", names, ``, nil, "decode response: EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, got := serve(t, tc.config, map[string]string{"filter": tc.response})
			f, err := e.Filter(t.Context(), testPod, testNodes)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(f, tc.want) {
				t.Errorf("got %+v, %v; want %+v", f, err, tc.want)
			}
			var args extenderv1.ExtenderArgs
			method, body, _ := strings.Cut(got["filter"], "{")
			if err := json.Unmarshal([]byte("{"+body), &args); err != nil || method != "POST application/json " || args.Pod.UID != testPod.UID {
				t.Errorf("request %s (%v)", got["filter"], err)
			}
			if tc.config.NodeCacheCapable != (args.NodeNames != nil) || tc.config.NodeCacheCapable != (args.Nodes == nil) {
				t.Errorf("request %s", got["filter"])
			}
		})
	}
}

// TestPrioritize checks the scale of scores, and that those of liars do not overflow.
func TestPrioritize(t *testing.T) {
	c := configv1.Extender{PrioritizeVerb: "prioritize", Weight: 3}
	e, _ := serve(t, c, map[string]string{"prioritize": `[{"Host": "a", "Score": 10}, {"Host": "b", "Score": 1}, {"Host": "b", "Score": 1}, {"Host": "c", "Score": 5}]`})
	got, err := e.Prioritize(t.Context(), testPod, testNodes)
	if want := (map[string]int64{"a": 300, "b": 60, "c": 150}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	e, _ = serve(t, c, map[string]string{"prioritize": `[{"Host": "a", "Score": 9223372036854775807}, {"Host": "b", "Score": -9223372036854775808}]`})
	if got, err = e.Prioritize(t.Context(), testPod, testNodes); err != nil || got["a"] <= 0 || got["b"] >= 0 {
		t.Errorf("got %v, %v; want a positive and a negative score", got, err)
	}
}

// TestPreempt checks victims, and those that are not on the node.
func TestPreempt(t *testing.T) {
	victims := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "v1"}}, {ObjectMeta: metav1.ObjectMeta{UID: "v2"}}}
	podsOn := func(node string) ([]*corev1.Pod, bool) { return victims, node == "a" || node == "b" }
	all := []place.Candidate{{Node: "a", Victims: victims, Violations: 1}, {Node: "b", Victims: victims[:1]}}
	for _, tc := range []struct {
		name, response string
		ignorable      bool
		want           []place.Candidate
		err            string
	}{
		{"fewer", `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v2"}, {"UID": "v2"}], "NumPDBViolations": 2}}}`, false, []place.Candidate{{Node: "a", Victims: victims[1:], Violations: 2}}, ""},
		{"none", `{}`, false, nil, ""},
		{"no victims", `{"NodeNameToMetaVictims": {"a": {"Pods": []}}}`, false, nil, `expected at least one victim pod on node "a"`},
		{"null victims", `{"NodeNameToMetaVictims": {"a": null}}`, true, nil, ""},
		{"null victim", `{"NodeNameToMetaVictims": {"a": {"Pods": [null]}}}`, true, nil, "the pod is not found on that node"},
		{"unknown node", `{"NodeNameToMetaVictims": {"c": {"Pods": [{"UID": "v1"}]}}}`, false, nil, `nodeinfo not found for node name "c"`},
		{"unknown pod", `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v3"}]}}}`, false, nil, "the pod is not found on that node"},
	} {
		for _, caches := range []bool{false, true} {
			e, got := serve(t, configv1.Extender{PreemptVerb: "preempt", Ignorable: tc.ignorable, NodeCacheCapable: caches}, map[string]string{"preempt": tc.response})
			kept, err := e.Preempt(t.Context(), testPod, all, podsOn)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || !reflect.DeepEqual(kept, tc.want) {
				t.Errorf("%s: got %+v, %v; want %+v, %s", tc.name, kept, err, tc.want, tc.err)
			}
			if meta := strings.Contains(got["preempt"], `"NodeNameToVictims":null`); meta != caches {
				t.Errorf("%s: request %s", tc.name, got["preempt"])
			}
		}
	}
}

// TestBind checks bindings and their errors.
func TestBind(t *testing.T) {
	c := configv1.Extender{BindVerb: "bind"}
	e, got := serve(t, c, map[string]string{"bind": `{}`})
	if err := e.Bind(t.Context(), testPod, "a"); err != nil || !strings.HasSuffix(got["bind"], `{"PodName":"p","PodNamespace":"default","PodUID":"uid-p","Node":"a"}`) {
		t.Errorf("error %v, request %s", err, got["bind"])
	}
	e, _ = serve(t, c, map[string]string{"bind": `{"Error": "no"}`})
	if err := e.Bind(t.Context(), testPod, "a"); err == nil || err.Error() != "no" {
		t.Errorf("error %v, want no", err)
	}
	e, _ = serve(t, c, nil)
	if err := e.Bind(t.Context(), testPod, "a"); err == nil || !strings.HasPrefix(err.Error(), "failed bind with extender at URL http") || !strings.HasSuffix(err.Error(), "/scheduler/bind, code 418") {
		t.Errorf("error %v", err)
	}
}

// TestInterested checks which pods an extender with resources is called for.
func TestInterested(t *testing.T) {
	e, err := New(configv1.Extender{URLPrefix: "http://localhost", ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}}})
	if err != nil {
		t.Fatal(err)
	}
	gpu := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"none":           {corev1.PodSpec{Containers: []corev1.Container{{}}}, false},
		"request":        {corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Requests: gpu}}}}, true},
		"limit":          {corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: gpu}}}}, true},
		"init container": {corev1.PodSpec{InitContainers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: gpu}}}}, true},
	} {
		if got := e.Interested(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Spec: tc.spec}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestHangs checks that a call to a server that accepts a request and never responds ends after the
// time limit, and with its context.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, timeout := range []time.Duration{0, time.Minute} {
			e, err := New(configv1.Extender{URLPrefix: "http://extender", FilterVerb: "filter", HTTPTimeout: metav1.Duration{Duration: timeout}})
			if err != nil {
				t.Fatal(err)
			}
			e.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					for data := make([]byte, 1024); ; {
						if _, err := theirs.Read(data); err != nil {
							return
						}
					}
				}()
				return ours, nil
			}
			begin := time.Now()
			if _, err := e.Filter(t.Context(), testPod, testNodes); err == nil {
				t.Errorf("error %v, want a timeout", err)
			}
			if took, want := time.Since(begin), cmp.Or(timeout, DefaultTimeout); took != want {
				t.Errorf("the call took %v, want %v", took, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begin = time.Now()
			if _, err := e.Filter(ctx, testPod, testNodes); err == nil || time.Since(begin) != time.Second {
				t.Errorf("the call took %v, want 1s, and returned %v", time.Since(begin), err)
			}
			cancel()
			e.CloseIdle()
		}
	})
}

// TestTLS checks that a server with TLS is verified only against a configured CA, and that a bad
// configuration is an error.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for name, tc := range map[string]struct {
		config configv1.Extender
		works  bool
	}{
		"without a CA":           {configv1.Extender{EnableHTTPS: true}, true},
		"insecure":               {configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{Insecure: true}}, true},
		"verified by the host":   {configv1.Extender{}, false},
		"verified, unknown name": {configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{ServerName: "other"}}, false},
	} {
		tc.config.URLPrefix, tc.config.BindVerb = server.URL, "bind"
		e, err := New(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Bind(t.Context(), testPod, "a"); (err == nil) != tc.works {
			t.Errorf("%s: error %v, want success %t", name, err, tc.works)
		}
		e.CloseIdle()
	}
	if _, err := New(configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{CAFile: "/does/not/exist"}}); err == nil {
		t.Error("no error for a CA that does not exist")
	}
}
