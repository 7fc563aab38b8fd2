package kubelets

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const podPath = "/api/v1/namespaces/default/pods/"

// upgrade are the headers of a request for a WebSocket.
var upgrade = []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}

// TestRefusals checks the responses to requests that do not reach a kubelet, and those of kubelets.
func TestRefusals(t *testing.T) {
	c := start(t)
	c.pod("both", "n", "a", "b")
	c.pod("waiting", "", "app")
	c.pod("lost", "gone", "app")
	c.pod("odd", "n", "broken", "away")
	for _, test := range []struct {
		method, path string
		code         int
		text         string
		headers      []string
	}{
		{"GET", "web/log?container=x", 400, "container x is not valid for pod web", nil},
		{"GET", "both/log", 400, "a container name must be specified for pod both, choose one of: [a b]", nil},
		{"GET", "none/log", 404, `pods \"none\" not found`, nil},
		{"GET", "waiting/log", 204, "", nil},
		{"GET", "lost/log", 404, `nodes \"gone\" not found`, nil},
		{"GET", "odd/log?container=broken", 500, "the log is broken", nil},
		{"GET", "odd/log?container=away", 500, "redirects forbidden", nil},
		{"GET", "web/log?previous=true", 400, "previous terminated container not found", nil},
		{"GET", "web/log?tailLines=x", 400, `strconv.ParseInt: parsing \"x\": invalid syntax`, nil},
		{"GET", "web/log?tailLines=-1", 422, `PodLogOptions \"web\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`, nil},
		{"GET", "web/log?limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0", nil},
		{"GET", "web/log?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0", nil},
		{"GET", "web/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified", nil},
		{"GET", "web/log?stream=Stdout", 422, "stream: Forbidden: may not be specified", nil},
		{"GET", "web/log?dryRun=All", 200, "first", nil},
		{"GET", "web/log", 400, "a log cannot be read over an upgraded connection", upgrade},
		{"HEAD", "web/log", 405, "", nil},
		{"POST", "web/log", 405, "the server does not allow this method", nil},
		{"GET", "web/log/more", 404, "the server could not find the requested resource", nil},
		{"GET", "web/logs", 404, "the server could not find the requested resource", nil},
		{"GET", "/log?fieldSelector=metadata.name=web", 400, "name must be provided", nil},
		{"POST", "/exec?fieldSelector=metadata.name=web", 400, "name must be provided", upgrade},
		{"POST", "web/exec", 400, "Upgrade request required", nil},
		{"PUT", "web/exec", 405, "the server does not allow this method", upgrade},
		{"POST", "web/exec?dryRun=All", 400, "dryRun is not supported", upgrade},
		{"POST", "web/portforward?dryRun=", 400, "dryRun is not supported", upgrade},
		{"POST", "both/attach", 400, "a container name must be specified for pod both, choose one of: [a b]", upgrade},
		{"POST", "waiting/exec", 400, "pod waiting does not have a host assigned", upgrade},
		{"POST", "waiting/portforward", 400, "pod waiting does not have a host assigned", upgrade},
		{"POST", "web/portforward?ports=80,x", 400, "cannot convert to []int32", upgrade},
		{"POST", "web/portforward?ports=70000", 400, "cannot convert to []int32", upgrade},
		{"POST", "web/portforward?ports=0", 400, `port \"0\" must be a number from 1 to 65535`, upgrade},
		{"GET", "http:web:x:y/proxy/", 400, `invalid pod request \"http:web:x:y\"`, nil},
		{"GET", "ftp:web:80/proxy/", 400, `invalid pod request \"ftp:web:80\"`, nil},
	} {
		c.expect(test.code, test.text, test.method, podPath+test.path, test.headers...)
	}
}

// TestBadHandshake sends WebSocket handshakes that the kubelet rejects: the server passes on the
// response, and waits for nothing.
func TestBadHandshake(t *testing.T) {
	c := start(t)
	answer, text := c.do("GET", podPath+"web/exec?stdout=true", "Connection", "Upgrade", "Upgrade", "websocket")
	if answer.StatusCode < 400 || answer.StatusCode == http.StatusInternalServerError {
		t.Errorf("%d: %s", answer.StatusCode, text)
	}
	// The kubelet responds as if to a plain request.
	answer, text = c.do("GET", "/api/v1/nodes/n/proxy/anything?command=ls", upgrade...)
	if answer.StatusCode != http.StatusInternalServerError || !strings.Contains(text, "invalid upgrade response: status code 200") {
		t.Errorf("%d: %s", answer.StatusCode, text)
	}
	if got := c.kubelet.last().URL.String(); got != "/anything" { // without parameters, as in Kubernetes
		t.Errorf("the kubelet got %s", got)
	}
	c.wait("the connections to end", func() bool { return c.kubelet.connections() == 0 })
}

// user returns the client of a user with some permissions.
func (c *cluster) user(name string, rules ...rbacv1.PolicyRule) *kubernetes.Clientset {
	c.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := c.client.RbacV1().ClusterRoles().Create(c.Context(), role, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	_, err := c.client.RbacV1().ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = name
	transport, err := rest.TransportFor(config)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { closeIdle(transport) })
	client, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: transport})
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// TestPermissions checks which permissions a connection needs.
func TestPermissions(t *testing.T) {
	c := start(t)
	in := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	reader := c.user("reader", in("pods/exec", "get"), in("pods/log", "list"), in("nodes/proxy", "get"), in("pods/attach", "get"), in("pods/portforward", "get"))
	writer := c.user("writer", in("pods/exec", "create", "get"), in("nodes/proxy", "create"))
	for _, test := range []struct {
		by           *kubernetes.Clientset
		method, path string
		code         int
		text         string
	}{
		{reader, "GET", podPath + "web/exec", 403, `User \"reader\" cannot create resource \"pods/exec\"`},
		{reader, "GET", podPath + "web/attach", 403, `cannot create resource \"pods/attach\"`},
		{reader, "GET", podPath + "web/portforward", 403, `cannot create resource \"pods/portforward\"`},
		{writer, "GET", podPath + "web/exec", 400, "Upgrade request required"},
		{writer, "POST", podPath + "web/exec", 400, "Upgrade request required"},
		{reader, "GET", podPath + "web/log", 403, `cannot get resource \"pods/log\"`},
		{reader, "GET", podPath + "/log?fieldSelector=metadata.name=web", 400, "name must be provided"},
		{reader, "GET", "/api/v1/nodes/n/proxy/x", 200, "GET /x"},
		{reader, "HEAD", "/api/v1/nodes/n/proxy/x", 200, ""},
		{reader, "POST", "/api/v1/nodes/n/proxy/x", 403, `cannot create resource \"nodes/proxy\"`},
		{reader, "PUT", "/api/v1/nodes/n/proxy/x", 403, `cannot update resource \"nodes/proxy\"`},
		{reader, "PATCH", "/api/v1/nodes/n/proxy/x", 403, `cannot patch resource \"nodes/proxy\"`},
		{reader, "DELETE", "/api/v1/nodes/n/proxy/x", 403, `cannot delete resource \"nodes/proxy\"`},
		{reader, "OPTIONS", "/api/v1/nodes/n/proxy/x", 403, "forbidden"},
		{writer, "POST", "/api/v1/nodes/n/proxy/x", 200, "POST /x"},
		{writer, "GET", "/api/v1/nodes/n/proxy/x", 403, `cannot get resource \"nodes/proxy\"`},
	} {
		if answer, text := c.as(test.by, test.method, test.path); answer.StatusCode != test.code || !strings.Contains(text, test.text) {
			t.Errorf("%s %s: %d, want %d with %q: %s", test.method, test.path, answer.StatusCode, test.code, test.text, text)
		}
	}
}

// TestSeats follows more logs than the server serves requests at a time: a connection that has been
// made occupies no seat.
func TestSeats(t *testing.T) {
	c := start(t, func(o *kapok.Options) {
		o.Fairness = kapok.FairnessOptions{Unfair: true, MaxRequestsInFlight: 1, MaxMutatingRequestsInFlight: 1}
	})
	bob := c.user("bob", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}, Verbs: []string{"get"}})
	for range 5 {
		stream, err := bob.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if _, err := io.ReadFull(stream, make([]byte, len("first\n"))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bob.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestTimeoutParameter sends a timeout that has passed when the request arrives.
func TestTimeoutParameter(t *testing.T) {
	c := start(t)
	c.expect(200, "first", "GET", podPath+"web/log?timeout=1ns")
	c.expect(200, "GET /x?timeout=1ns", "GET", "/api/v1/nodes/n/proxy/x?timeout=1ns")
}

// TestMetrics checks the series of connections.
func TestMetrics(t *testing.T) {
	c := start(t)
	stream, err := c.client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const running = `apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="log",verb="CONNECT",version="v1"} 1`
	if _, text := c.do("GET", "/metrics"); !strings.Contains(text, running) {
		t.Errorf("the log is not among the running requests: %s", lines(text, "apiserver_longrunning_requests"))
	}
	stream.Close()
	c.expect(200, "GET /x", "GET", "/api/v1/nodes/n/proxy/x")
	for _, want := range []string{
		running[:len(running)-1] + "0",
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="log",verb="CONNECT",version="v1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="resource",subresource="proxy",verb="CONNECT",version="v1"} 1`,
	} {
		c.wait(want, func() bool {
			_, text := c.do("GET", "/metrics")
			return strings.Contains(text, want)
		})
	}
}

func lines(text, prefix string) string {
	var found strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found.WriteString(line)
		}
	}
	return found.String()
}
