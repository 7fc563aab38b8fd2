package kubelets

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serve starts a program in the pod web, and returns its port.
func (c *cluster) serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.address("web", host)
	return port
}

// TestPodProxy sends requests to a program in a pod.
func TestPodProxy(t *testing.T) {
	c := start(t)
	port := c.serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Access-Control-Allow-Origin", "*")
			io.WriteString(w, `<a href="/other">other</a>`)
		case "/compressed":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, `<a href="/other">other</a>`)
			z.Close()
		case "/bomb":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 17 {
				z.Write(bytes.Repeat([]byte("<p>"), 1<<20/3))
			}
			z.Close()
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("X-Forwarded-Uri"), body)
		}
	})
	at := podPath + "web:" + port + "/proxy"
	c.expect(200, "GET /a%20b/c?d=e&f="+" "+podPath+"web:"+port+"/proxy/a%20b/c", "GET", at+"/a%20b/c?d=e&f=")
	c.expect(200, "GET /x/ ", "GET", at+"/x/")
	c.expect(200, "GET / ", "GET", at+"/")
	c.expect(200, "GET /x ", "GET", at+"/a/../../../x")
	c.expect(200, "DELETE /x ", "DELETE", at+"/x")
	c.expect(200, "OPTIONS /x ", "OPTIONS", at+"/x")
	c.expect(200, "POST / ", "POST", at)
	c.expect(200, `<a href="`+at+`/other">other</a>`, "GET", at+"/page")
	c.expect(200, `<a href="`+at+`/other">other</a>`, "GET", at+"/compressed", "Accept-Encoding", "gzip")
	c.expect(503, "the page has more than 16777216 bytes", "GET", at+"/bomb", "Accept-Encoding", "gzip")
	answer, _ := c.do("GET", at+"?a=b")
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusMovedPermanently || to != at+"/?a=b" {
		t.Errorf("%d to %s", answer.StatusCode, to)
	}
	answer, _ = c.do("GET", at+"/moved")
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusFound || to != at+"/elsewhere" {
		t.Errorf("%d to %s", answer.StatusCode, to)
	}
	answer, _ = c.do("GET", at+"/page")
	if answer.Header.Get("Access-Control-Allow-Origin") != "" || answer.Header.Get("Audit-Id") == "" || len(answer.Header["Cache-Control"]) != 1 {
		t.Errorf("the headers are %v", answer.Header)
	}
	c.address("web", "192.0.2.1")
	c.expect(400, `port \"x\" must be a number from 1 to 65535`, "GET", podPath+"web:x/proxy/")
	c.expect(400, `port \"65536\" must be a number from 1 to 65535`, "GET", podPath+"web:65536/proxy/")
	c.expect(400, `port \"-1\" must be a number from 1 to 65535`, "GET", podPath+"web:-1/proxy/")
	for _, ip := range []string{"169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "::"} {
		c.address("web", ip)
		c.expect(400, "address not allowed", "GET", podPath+"web:80/proxy/")
	}
}

// TestUpload sends the body of a request after the program has begun to respond.
func TestUpload(t *testing.T) {
	c := start(t)
	port := c.serve(t, func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		if err := out.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "begun ")
		out.Flush()
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	body, in := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", c.config.Host+podPath+"web:"+port+"/proxy/", body)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer in.Close()
		in.Write([]byte("x"))
		<-answered
		in.Write(make([]byte, 1<<20))
	}()
	answer, err := c.http().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	close(answered)
	text, err := io.ReadAll(answer.Body)
	if err != nil || string(text) != "begun 1048577 <nil>" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestInformational passes on a response that precedes the response.
func TestInformational(t *testing.T) {
	c := start(t)
	port := c.serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})
	var early int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		early = code
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, "GET", c.config.Host+podPath+"web:"+port+"/proxy/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.http().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if early != http.StatusEarlyHints || answer.StatusCode != http.StatusTeapot || answer.Header.Get("Audit-Id") == "" {
		t.Errorf("%d, %d with %v", early, answer.StatusCode, answer.Header)
	}
	c.wait("the code of the response in the metrics", func() bool {
		_, text := c.do("GET", "/metrics")
		return strings.Contains(text, `apiserver_request_total{code="418",`)
	})
}

// TestServiceProxy checks the errors of services; TestServices of internal/connect chooses pods.
func TestServiceProxy(t *testing.T) {
	c := start(t)
	_, err := c.client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const services = "/api/v1/namespaces/default/services/"
	c.expect(503, `no service port 82 found for service \"s\"`, "GET", services+"s:82/proxy/x")
	c.expect(503, `no endpoints available for service \"s\"`, "GET", services+"s:80/proxy/x")
	c.expect(503, `no endpoints available for service \"s\"`, "POST", services+"s/proxy")
	c.expect(503, `no endpoints available for service \"none\"`, "GET", services+"none/proxy/x")
	c.expect(404, `services \"none\" not found`, "GET", services+"none:80/proxy/x")
	c.expect(400, `invalid service request \"a:b:c:d\"`, "GET", services+"a:b:c:d/proxy/x")
}

// TestNodeProxy sends requests to the kubelet, and to another port of its node.
func TestNodeProxy(t *testing.T) {
	c := start(t)
	const kubelet = "as kube-apiserver-kubelet-client of [kapok:kubelet-api-admin]"
	c.expect(200, "GET /metrics "+kubelet, "GET", "/api/v1/nodes/n/proxy/metrics")
	c.expect(200, "GET /metrics "+kubelet, "GET", "/api/v1/nodes/n:"+c.kubelet.port+"/proxy/metrics")
	other := startKubelet(t)
	c.expect(200, "GET /metrics as nobody", "GET", "/api/v1/nodes/https:n:"+other.port+"/proxy/metrics")
	c.expect(400, `port \"x\" must be a number`, "GET", "/api/v1/nodes/n:x/proxy/")
	c.expect(404, `nodes \"none\" not found`, "GET", "/api/v1/nodes/none/proxy/")
	c.expect(404, "the server could not find", "GET", "/api/v1/namespaces/default/nodes/n/proxy/")
	c.expect(404, "the server could not find", "GET", "/api/v1/proxy/nodes/n/metrics")
	c.node("nowhere", "-:-", "1")
	c.expect(400, `the address \"-:-\" of node nowhere is neither an IP address nor a name`, "GET", "/api/v1/nodes/nowhere/proxy/")
	c.node("beyond", "192.0.2.1", "65536")
	c.expect(400, `port \"65536\" must be a number`, "GET", "/api/v1/nodes/beyond/proxy/")
}

// TestOwnAddress lets a node have the address of the server itself: requests to it are refused on
// every way, and so are those to loopback addresses unless an option permits them.
func TestOwnAddress(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		c := start(t, func(o *kapok.Options) { o.Nodes.Loopback = loopback })
		_, own, err := net.SplitHostPort(c.server.Address())
		if err != nil {
			t.Fatal(err)
		}
		c.node("self", "127.0.0.1", own)
		c.node("named", "localhost", own)
		c.node("mapped", "::ffff:127.0.0.1", own)
		for _, node := range []string{"self", "named", "mapped"} {
			c.pod("on-"+node, node, "app")
			c.expect(400, "address not allowed", "GET", "/api/v1/nodes/"+node+"/proxy/api/v1/secrets")
			c.expect(400, "address not allowed", "GET", "/api/v1/nodes/https:"+node+":"+own+"/proxy/api/v1/secrets")
			c.expect(400, "address not allowed", "GET", podPath+"on-"+node+"/log")
			c.expect(400, "address not allowed", "GET", podPath+"on-"+node+"/exec", upgrade...)
		}
		code, text := 400, "address not allowed"
		if loopback {
			code, text = 200, "first"
		}
		c.expect(code, text, "GET", podPath+"web/log")
	}
}

// TestCredentials sends credentials of every kind through a proxy: the program gets none of them.
func TestCredentials(t *testing.T) {
	c := start(t)
	var got http.Header
	port := c.serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	c.expect(200, "", "GET", podPath+"web:"+port+"/proxy/",
		"Impersonate-User", "kubernetes-admin", "Impersonate-Group", "system:masters",
		"X-Remote-User", "a", "X-Remote-Group", "b", "X-Remote-Extra-Scopes", "c", "X_Remote_User", "d", "Proxy-Authorization", "Basic e",
		"Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.Zg, chat",
		"Cookie", "g=h", "X-Other", "i")
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Impersonate-User", "Impersonate-Group", "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes", "X_remote_user"} {
		if values := got[name]; values != nil {
			t.Errorf("%s: %v was passed on", name, values)
		}
	}
	for name, want := range map[string]string{"Sec-Websocket-Protocol": "chat", "Cookie": "g=h", "X-Other": "i", "X-Forwarded-For": "127.0.0.1"} {
		if value := got.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}
