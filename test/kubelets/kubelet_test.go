package kubelets

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/forward"

	"go.uber.org/goleak"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Clients leave these running for a while after the end of a connection.
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// A kubelet stands in for a kubelet: it speaks the protocols of one, and its programs are
// functions.
type kubelet struct {
	*httptest.Server
	host, port string

	mu       sync.Mutex
	requests []*http.Request // that it has received
	silent   chan struct{}   // closed at the end of the test; see silence
	open     int             // upgraded connections
	old      bool            // of a Kubernetes before 1.36
}

// startKubelet starts a kubelet that requests client certificates.
func startKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{silent: make(chan struct{})}
	k.Server = httptest.NewUnstartedServer(k)
	k.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	k.EnableHTTP2 = true
	k.StartTLS()
	t.Cleanup(func() {
		close(k.silent)
		k.Close()
	})
	k.host, k.port, _ = net.SplitHostPort(k.Listener.Addr().String())
	return k
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.requests = append(k.requests, r)
	k.mu.Unlock()
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/containerLogs/"):
		k.log(w, r)
	case strings.HasPrefix(path, "/exec/") || strings.HasPrefix(path, "/attach/"):
		k.streams(w, r)
	case strings.HasPrefix(path, "/portForward/"):
		k.ports(w, r)
	case path == "/silence":
		k.silence(w, r, func(io.Writer) { <-k.silent })
	case path == "/flood":
		k.silence(w, r, func(to io.Writer) { io.Copy(to, endless{}) })
	default:
		fmt.Fprintf(w, "%s %s as %s", r.Method, r.URL.RequestURI(), userOf(r))
	}
}

// userOf returns the user of a client certificate.
func userOf(r *http.Request) string {
	if len(r.TLS.PeerCertificates) == 0 {
		return "nobody"
	}
	subject := r.TLS.PeerCertificates[0].Subject
	return fmt.Sprint(subject.CommonName, " of ", subject.Organization)
}

// last returns the request that has arrived last.
func (k *kubelet) last() *http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.requests) == 0 {
		return nil
	}
	return k.requests[len(k.requests)-1]
}

func (k *kubelet) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.requests)
}

// connections returns the number of upgraded connections that are open.
func (k *kubelet) connections() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

func (k *kubelet) opened(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open += n
}

// log serves the log of a container.
func (k *kubelet) log(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Get("previous") != "":
		http.Error(w, "previous terminated container not found", http.StatusBadRequest)
		return
	case strings.HasSuffix(r.URL.Path, "/broken"):
		http.Error(w, "the log is broken", http.StatusInternalServerError)
		return
	case strings.HasSuffix(r.URL.Path, "/away"):
		http.Redirect(w, r, "https://192.0.2.1/", http.StatusFound)
		return
	}
	if r.URL.Query().Get("limitBytes") != "" {
		io.Copy(w, endless{})
		return
	}
	io.WriteString(w, "first\n")
	if r.URL.Query().Get("follow") == "" {
		io.WriteString(w, "second\n")
		return
	}
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// streams runs a program that copies its input to its output, after its command.
func (k *kubelet) streams(w http.ResponseWriter, r *http.Request) {
	k.opened(1)
	defer k.opened(-1)
	if wsstream.IsWebSocketRequest(r) {
		k.webSocket(w, r)
		return
	}
	if !forward.IsUpgrade(r) {
		http.Error(w, "you must specify an upgrade", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	arrived := make(chan httpstream.Stream, 5)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	query := r.URL.Query()
	wanted := 1
	for _, name := range []string{"input", "output", "error"} {
		if query.Get(name) == "1" {
			wanted++
		}
	}
	streams := map[string]httpstream.Stream{}
	for len(streams) < wanted {
		select {
		case s := <-arrived:
			streams[s.Headers().Get("streamType")] = s
		case <-conn.CloseChan():
			return
		}
	}
	out := io.Writer(streams["stdout"])
	fmt.Fprintf(out, "%s %q\n", r.URL.Path, query["command"])
	if in := streams["stdin"]; in != nil {
		io.Copy(out, in)
	}
	io.WriteString(streams["error"], `{"metadata":{},"status":"Success"}`)
}

// webSocket is streams over a WebSocket.
func (k *kubelet) webSocket(w http.ResponseWriter, r *http.Request) {
	channels := []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel}
	protocol := wsstream.ChannelProtocolConfig{Binary: true, Channels: channels}
	protocols := map[string]wsstream.ChannelProtocolConfig{"v4.channel.k8s.io": protocol}
	if !k.old {
		protocols["v5.channel.k8s.io"] = protocol
	}
	conn := wsstream.NewConn(protocols)
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(streams[1], "%s %q\n", r.URL.Path, r.URL.Query()["command"])
	if r.URL.Query().Get("input") == "1" {
		io.Copy(streams[1], streams[0])
	}
	io.WriteString(streams[3], `{"metadata":{},"status":"Success"}`)
}

// ports is a port of a pod that answers each line with an echo.
func (k *kubelet) ports(w http.ResponseWriter, r *http.Request) {
	k.opened(1)
	defer k.opened(-1)
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	var copying sync.WaitGroup
	defer copying.Wait()
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		if s.Headers().Get("streamType") == "data" {
			copying.Go(func() {
				<-replied
				fmt.Fprintf(s, "port %s: ", s.Headers().Get("port"))
				io.Copy(s, s)
				s.Close()
			})
		} else {
			copying.Go(func() {
				<-replied
				s.Close()
			})
		}
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	<-conn.CloseChan()
}

// silence upgrades the connection, does not read from it, and closes it after then.
func (k *kubelet) silence(w http.ResponseWriter, r *http.Request, then func(io.Writer)) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	k.opened(1)
	defer k.opened(-1)
	defer conn.Close()
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
	buffered.Flush()
	then(conn)
}
