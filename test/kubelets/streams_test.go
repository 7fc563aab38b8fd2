package kubelets

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// TestLog reads a log at once and as it grows.
func TestLog(t *testing.T) {
	c := start(t)
	pods := c.client.CoreV1().Pods("default")
	text, err := pods.GetLogs("web", &corev1.PodLogOptions{TailLines: new(int64(7)), Timestamps: true}).DoRaw(t.Context())
	if err != nil || string(text) != "first\nsecond\n" {
		t.Fatalf("%q, %v", text, err)
	}
	r := c.kubelet.last()
	if got := r.Method + " " + r.URL.String(); got != "GET /containerLogs/default/web/app?tailLines=7&timestamps=true" {
		t.Errorf("the kubelet got %s", got)
	}
	if by := userOf(r); by != "kube-apiserver-kubelet-client of [kapok:kubelet-api-admin]" {
		t.Errorf("the server authenticated as %s", by)
	}
	stream, err := pods.GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	line := make([]byte, len("first\n"))
	if _, err := io.ReadFull(stream, line); err != nil || string(line) != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(stream)
		ended <- err
	}()
	c.stop()
	if err := <-ended; err != nil {
		t.Errorf("the log did not end as if it were complete: %v", err)
	}
}

func (c *cluster) executors(subresource string, options any) map[string]remotecommand.Executor {
	c.Helper()
	request := c.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource(subresource)
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		request.VersionedParams(o, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		request.VersionedParams(o, scheme.ParameterCodec)
	}
	bySPDY, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, request.URL())
	if err != nil {
		c.Fatal(err)
	}
	byWebSocket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, request.URL().String())
	if err != nil {
		c.Fatal(err)
	}
	return map[string]remotecommand.Executor{"SPDY": bySPDY, "WebSocket": byWebSocket}
}

// TestExec runs a program over both protocols of clients.
func TestExec(t *testing.T) {
	c := start(t)
	for name, by := range c.executors("exec", &corev1.PodExecOptions{Stdin: true, Stdout: true, Command: []string{"cat", "a b"}}) {
		var out bytes.Buffer
		err := by.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out})
		if err != nil || out.String() != "/exec/default/web/app [\"cat\" \"a b\"]\nhello" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
		if got := c.kubelet.last().URL.RawQuery; got != "command=cat&command=a+b&input=1&output=1" {
			t.Errorf("%s: the parameters of the kubelet are %s", name, got)
		}
	}
	c.wait("the connections to end", func() bool { return c.kubelet.connections() == 0 })
}

// TestExecOnOldKubelet runs a program with kubectl's choice of protocols, on a kubelet that does
// not know the first one.
func TestExecOnOldKubelet(t *testing.T) {
	c := start(t)
	c.kubelet.old = true
	by := c.executors("exec", &corev1.PodExecOptions{Stdout: true, Command: []string{"ls"}})
	both, err := remotecommand.NewFallbackExecutor(by["WebSocket"], by["SPDY"], httpstream.IsUpgradeFailure)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := both.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "/exec/default/web/app [\"ls\"]\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if n := c.kubelet.count(); n != 2 {
		t.Errorf("%d requests, want one for each protocol", n)
	}
}

// TestAttach attaches to a program.
func TestAttach(t *testing.T) {
	c := start(t)
	for name, by := range c.executors("attach", &corev1.PodAttachOptions{Stdout: true, Container: "app"}) {
		var out bytes.Buffer
		err := by.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out})
		if err != nil || out.String() != "/attach/default/web/app []\n" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// forward forwards a local port to a pod, and returns a connection to it.
func (c *cluster) forward() (net.Conn, func()) {
	c.Helper()
	url := c.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		c.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		c.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		c.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		c.Fatal(err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
	if err != nil {
		c.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		close(stop)
		<-ended
	}
}

// TestPortForward sends bytes to a port of a pod.
func TestPortForward(t *testing.T) {
	c := start(t)
	conn, stop := c.forward()
	defer stop()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	const want = "port 80: hello"
	text := make([]byte, len(want))
	if _, err := io.ReadFull(conn, text); err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if path := c.kubelet.last().URL.Path; path != "/portForward/default/web" {
		t.Errorf("the kubelet got %s", path)
	}
}
