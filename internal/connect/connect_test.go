package connect_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/connect"
	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a store, and a Connector to what it names.
type world struct {
	testing.TB
	store     *resource.Store
	connector *connect.Connector
}

func newWorld(t *testing.T, options connect.Options) *world {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	options.State = st
	w := &world{TB: t, store: resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...)), connector: connect.New(options)}
	t.Cleanup(w.connector.Close)
	if err := bootstrap.EnsureNamespaces(t.Context(), w.store); err != nil {
		t.Fatal(err)
	}
	return w
}

// put creates objects, in YAML with a line of --- between them, and sets their status.
func (w *world) put(text string) {
	w.Helper()
	for text := range strings.SplitSeq(text, "---\n") {
		var obj resource.Tree
		if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
			w.Fatal(err)
		}
		kind := schema.FromAPIVersionAndKind(obj["apiVersion"].(string), obj["kind"].(string))
		d := w.store.Registry().Load().Kind(kind.GroupKind())
		r := &resource.Request{Definition: d, Version: d.Storage, Manager: "test", FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {}}
		metadata := obj["metadata"].(map[string]any)
		if d.Namespaced {
			metadata["namespace"], r.Namespace = "default", "default"
		}
		data, err := json.Marshal(obj)
		if err != nil {
			w.Fatal(err)
		}
		if _, err = w.store.Create(w.Context(), r, resource.Body{Data: data}); err != nil {
			w.Fatal(err)
		}
		if obj["status"] == nil {
			continue
		}
		r.Name, r.Subresource = metadata["name"].(string), "status"
		if _, err = w.store.Edit(w.Context(), r, func(live resource.Tree) error {
			live["status"] = obj["status"]
			return nil
		}); err != nil {
			w.Fatal(err)
		}
	}
}

// locate returns the target of a request, as text: "unverified URL".
func (w *world) locate(plural, name, subresource, query, below string) (string, error) {
	w.Helper()
	d := w.store.Registry().Load().Resource(schema.GroupResource{Resource: plural})
	r := &resource.Request{Definition: d, Version: d.Storage, Name: name, Subresource: subresource, Warn: func(string) {}}
	if d.Namespaced {
		r.Namespace = "default"
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		w.Fatal(err)
	}
	options, err := d.Storage.Connection(subresource).Decode(parameters, below)
	if err != nil {
		return "", err
	}
	options, o, err := w.store.Connect(w.Context(), r, options)
	if err != nil {
		return "", err
	}
	t, err := w.connector.Locate(r, o, options)
	switch {
	case err != nil:
		return "", err
	case t == nil:
		return "nowhere", nil
	}
	text := t.URL.String()
	if t.Kubelet {
		text = "kubelet " + text
	}
	if t.Unverified {
		text = "unverified " + text
	}
	return text, nil
}

const node = `
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  addresses:
  - {type: ExternalIP, address: 198.51.100.1}
  - {type: InternalIP, address: 192.0.2.1}
  - {type: InternalIP, address: 192.0.2.2}
  - {type: ExternalDNS, address: n.example.com}
`

// TestTargets checks the addresses, paths and parameters of targets.
func TestTargets(t *testing.T) {
	w := newWorld(t, connect.Options{})
	w.put(node + `---
apiVersion: v1
kind: Node
metadata: {name: named}
status:
  addresses: [{type: InternalIP, address: "2001:db8::1"}, {type: Hostname, address: named}]
  daemonEndpoints: {kubeletEndpoint: {Port: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: bare}
---
apiVersion: v1
kind: Node
metadata: {name: six}
status: {addresses: [{type: InternalIP, address: "2001:db8::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: n1, containers: [{name: c, image: i, ports: [{containerPort: 8080}]}]}
status: {podIP: 192.0.2.9, podIPs: [{ip: 192.0.2.9}]}
---
apiVersion: v1
kind: Pod
metadata: {name: six}
spec: {nodeName: six, containers: [{name: c, image: i}], initContainers: [{name: i, image: i}]}
status: {podIP: "2001:db8::9", podIPs: [{ip: "2001:db8::9"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: homeless}
spec: {nodeName: bare, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: named}
spec: {nodeName: named, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec: {containers: [{name: c, image: i}]}
`)
	for _, test := range []struct{ plural, name, subresource, query, below, want string }{
		{"pods", "p", "log", "", "", "kubelet https://192.0.2.1:10250/containerLogs/default/p/c"},
		{"pods", "p", "log", "follow=1&previous=true&timestamps=&sinceSeconds=5&tailLines=0&limitBytes=9&pretty=true&x=y", "",
			"kubelet https://192.0.2.1:10250/containerLogs/default/p/c?follow=true&limitBytes=9&previous=true&sinceSeconds=5&tailLines=0&timestamps=true"},
		{"pods", "p", "log", "follow=false&sinceTime=2026-01-02T03:04:05%2B01:00", "",
			"kubelet https://192.0.2.1:10250/containerLogs/default/p/c?sinceTime=2026-01-02T02%3A04%3A05Z"},
		{"pods", "p", "log", "insecureSkipTLSVerifyBackend=true", "", "unverified kubelet https://192.0.2.1:10250/containerLogs/default/p/c"},
		{"pods", "six", "log", "container=i", "", "kubelet https://[2001:db8::1]:10250/containerLogs/default/six/i"},
		{"pods", "named", "log", "", "", "kubelet https://named:10/containerLogs/default/named/c"},
		{"pods", "homeless", "log", "", "", "no preferred addresses found; known addresses: []"},
		{"pods", "waiting", "log", "", "", "nowhere"},
		{"pods", "waiting", "log", "container=x", "", "container x is not valid for pod waiting"},
		{"pods", "p", "exec", "command=a&command=b%20c&stdin=true&stdout=1&stderr=&tty=0&input=1", "",
			"kubelet https://192.0.2.1:10250/exec/default/p/c?command=a&command=b+c&error=1&input=1&output=1"},
		{"pods", "p", "exec", "", "", "kubelet https://192.0.2.1:10250/exec/default/p/c"},
		{"pods", "p", "attach", "command=a&tty=true", "", "kubelet https://192.0.2.1:10250/attach/default/p/c?tty=1"},
		{"pods", "p", "portforward", "", "", "kubelet https://192.0.2.1:10250/portForward/default/p"},
		{"pods", "p", "portforward", "ports=80,81&ports=82", "", "kubelet https://192.0.2.1:10250/portForward/default/p?port=80%2C81%2C82"},
		{"pods", "p", "proxy", "", "", "http://192.0.2.9:8080"},
		{"pods", "p", "proxy", "path=/b", "/a/", "http://192.0.2.9:8080/a/"},
		{"pods", "https:p:1", "proxy", "", "/a%2F b?c", "https://192.0.2.9:1/a%252F%20b%3Fc"},
		{"pods", "six", "proxy", "", "/", "http://[2001:db8::9]/"},
		{"pods", "https:six:", "proxy", "", "/", "https://[2001:db8::9]/"},
		{"pods", "waiting", "proxy", "", "/", "address not allowed"},
		{"pods", ":80", "proxy", "", "/", `invalid pod request ":80"`},
		{"nodes", "n1", "proxy", "", "/x", "kubelet https://192.0.2.1:10250/x"},
		{"nodes", "http:n1:10250", "proxy", "", "/x", "kubelet https://192.0.2.1:10250/x"},
		{"nodes", "n1:81", "proxy", "", "/x", "http://192.0.2.1:81/x"},
		{"nodes", "https:n1:81", "proxy", "", "/../x", "https://192.0.2.1:81/x"},
		{"nodes", "bare", "proxy", "", "/x", "no preferred addresses found; known addresses: []"},
		{"nodes", "n1:0", "proxy", "", "/x", `port "0" must be a number from 1 to 65535`},
	} {
		got, err := w.locate(test.plural, test.name, test.subresource, test.query, test.below)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s/%s/%s?%s%s: %s, want %s", test.plural, test.name, test.subresource, test.query, test.below, got, test.want)
		}
	}
}

// TestAddressTypes checks the preference of an administrator.
func TestAddressTypes(t *testing.T) {
	w := newWorld(t, connect.Options{AddressTypes: []corev1.NodeAddressType{"ExternalDNS", "ExternalIP"}})
	w.put(node)
	if got, err := w.locate("nodes", "n1", "proxy", "", "/"); got != "kubelet https://n.example.com:10250/" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestServices checks which pods of a service are chosen.
func TestServices(t *testing.T) {
	w := newWorld(t, connect.Options{})
	w.put(`
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {ports: [{name: http, port: 80}, {name: metrics, port: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: unnamed}
spec: {ports: [{port: 80}]}
`)
	for i := range 4 {
		w.put(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: p%d}
spec: {containers: [{name: c, image: i}]}
status: {podIP: 192.0.2.%d, podIPs: [{ip: 192.0.2.%d}, {ip: "2001:db8::1%d"}]}
`, i, i, i, i))
	}
	slice := func(name, service, family, port, endpoints string) {
		w.put(fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, labels: {kubernetes.io/service-name: %s}}
addressType: %s
ports: [%s]
endpoints: [%s]
`, name, service, family, port, endpoints))
	}
	const ref = "targetRef: {kind: Pod, namespace: default, name: "
	slice("a", "s", "IPv4", "{name: http, port: 8080}", `
		{addresses: [192.0.2.0], `+ref+`p0}},
		{addresses: [192.0.2.1], `+ref+`p1}, conditions: {ready: true}},
		{addresses: [192.0.2.2], `+ref+`p2}, conditions: {ready: false}},
		{addresses: [192.0.2.3]},
		{addresses: [192.0.2.3], `+ref+`p2}},
		{addresses: [192.0.2.3], `+ref+`none}},
		{addresses: [192.0.2.3], targetRef: {kind: Pod, namespace: kube-system, name: p3}},
		{addresses: [198.51.100.1], `+ref+`p3}}`)
	slice("b", "s", "IPv6", "{name: http, port: 8080}, {name: metrics, port: 9}", `{addresses: ["2001:db8::13"], `+ref+`p3}}`)
	slice("c", "t", "IPv4", "{name: http, port: 1}", `{addresses: [192.0.2.3], `+ref+`p3}}`)
	slice("d", "unnamed", "IPv4", "{port: 7}", `{addresses: [192.0.2.3], `+ref+`p3}}`)
	for name, want := range map[string][]string{
		"s:http":          {"http://192.0.2.0:8080/x", "http://192.0.2.1:8080/x"},
		"s:80":            {"http://192.0.2.0:8080/x", "http://192.0.2.1:8080/x"},
		"https:s:81":      {"https://[2001:db8::13]:9/x"},
		"s:metrics":       {"http://[2001:db8::13]:9/x"},
		"unnamed":         {"http://192.0.2.3:7/x"},
		"unnamed:80":      {"http://192.0.2.3:7/x"},
		"t:http":          {"http://192.0.2.3:1/x"},
		"s":               {`no endpoints available for service "s"`},
		"s:99999":         {`no service port 99999 found for service "s"`},
		"none:http":       {`no endpoints available for service "none"`},
		"none:80":         {`services "none" not found`},
		"http:s:http:one": {`invalid service request "http:s:http:one"`},
	} {
		found := map[string]bool{}
		for range 100 {
			got, err := w.locate("services", name, "proxy", "", "/x")
			if err != nil {
				got = err.Error()
			}
			found[got] = true
		}
		for _, one := range want {
			if !found[one] {
				t.Errorf("%s: %s was not chosen", name, one)
			}
		}
		for one := range found {
			if !slices.Contains(want, one) {
				t.Errorf("%s: %s was chosen", name, one)
			}
		}
	}
}
