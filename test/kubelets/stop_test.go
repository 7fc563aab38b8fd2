package kubelets

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// TestStopEndsExec stops the server while a program waits for input that never comes.
func TestStopEndsExec(t *testing.T) {
	for _, protocol := range []string{"SPDY", "WebSocket"} {
		t.Run(protocol, func(t *testing.T) {
			c := start(t)
			by := c.executors("exec", &corev1.PodExecOptions{Stdin: true, Stdout: true})[protocol]
			input, never := io.Pipe()
			output, out := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- by.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: input, Stdout: out})
				out.Close()
			}()
			if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			c.stop()
			never.Close()
			<-ended // without an error of its own in SPDY
			c.wait("the kubelet to notice", func() bool { return c.kubelet.connections() == 0 })
		})
	}
}

// TestStopEndsPortForward stops the server while a port is forwarded.
func TestStopEndsPortForward(t *testing.T) {
	c := start(t)
	conn, stop := c.forward()
	defer stop()
	if _, err := bufio.NewReader(conn).ReadString(':'); err != nil {
		t.Fatal(err)
	}
	c.stop()
	if _, err := io.ReadAll(conn); err != nil {
		t.Logf("the forwarded connection ended with %v", err)
	}
	c.wait("the kubelet to notice", func() bool { return c.kubelet.connections() == 0 })
}

// open opens an upgraded connection to a path of the kubelet.
func (c *cluster) open(path string) net.Conn {
	c.Helper()
	secure, err := rest.TLSConfigFor(c.config)
	if err != nil {
		c.Fatal(err)
	}
	to, err := url.Parse(c.config.Host)
	if err != nil {
		c.Fatal(err)
	}
	conn, err := tls.Dial("tcp", to.Host, secure)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /api/v1/nodes/n/proxy%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n", path, to.Host)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.Fatal(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		c.Fatal(answer.Status)
	}
	return conn
}

// TestStopEndsSilence stops the server while a kubelet neither reads nor writes, and the client
// sends as much as it can: writes of the server block then.
func TestStopEndsSilence(t *testing.T) {
	c := start(t)
	conn := c.open("/silence")
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, endless{})
		ended <- err
	}()
	c.wait("the connection", func() bool { return c.kubelet.connections() == 1 })
	c.stop()
	if err := <-ended; err == nil {
		t.Error("the connection of the client was not closed")
	}
}

// TestStopEndsFlood stops the server while a kubelet sends as much as it can, and the client does
// not read.
func TestStopEndsFlood(t *testing.T) {
	c := start(t)
	c.open("/flood")
	c.wait("the connection", func() bool { return c.kubelet.connections() == 1 })
	c.stop()
	c.wait("the kubelet to notice", func() bool { return c.kubelet.connections() == 0 })
}

// TestStopEndsUnreadLog stops the server while a client does not read a log.
func TestStopEndsUnreadLog(t *testing.T) {
	c := start(t)
	stream, err := c.client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true, LimitBytes: new(int64(1))}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	c.stop()
}

// TestClientEnds closes the connection of a client while the kubelet is silent: the server closes
// the other side, although the kubelet does not.
func TestClientEnds(t *testing.T) {
	c := start(t)
	conn := c.open("/silence")
	const running = `apiserver_longrunning_requests{component="apiserver",group="",resource="nodes",scope="resource",subresource="proxy",verb="CONNECT",version="v1"} `
	if _, text := c.do("GET", "/metrics"); !strings.Contains(text, running+"1") {
		t.Fatal("the connection is not counted")
	}
	conn.Close()
	c.wait("the request to end", func() bool {
		_, text := c.do("GET", "/metrics")
		return strings.Contains(text, running+"0")
	})
}

// endless is input without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
