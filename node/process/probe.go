package process

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/node/internal/proc"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// longestProbe is the length of the output or of the response of a probe that is read, in bytes.
const longestProbe = 10 << 10

// probe runs a probe once; nil if it has succeeded.
func (t *tender) probe(ctx context.Context, p *corev1.Probe) error {
	timeout := time.Duration(max(1, p.TimeoutSeconds)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	switch {
	case p.Exec != nil:
		err = t.exec(ctx, p.Exec.Command)
	case p.HTTPGet != nil:
		err = t.get(ctx, p.HTTPGet)
	case p.TCPSocket != nil:
		err = t.connect(ctx, p.TCPSocket)
	case p.GRPC != nil:
		err = t.checkHealth(ctx, p.GRPC)
	default:
		return errors.New("the probe has no handler")
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("probe timed out after %v", timeout)
	}
	return err
}

// exec runs a command in the container. The error has its output.
func (t *tender) exec(ctx context.Context, command []string) error {
	var out limited
	err := t.pods.runtime.Exec(ctx, t.run.ID, command, proc.Streams{Out: &out, Err: &out})
	if err != nil && out.Len() > 0 {
		return errors.New(strings.TrimSpace(out.String()))
	}
	return err
}

// A limited buffer keeps the beginning of what is written. Output and errors of a command are
// written at the same time.
type limited struct {
	lock sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if room := longestProbe - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// get sends an HTTP request to the container.
func (t *tender) get(ctx context.Context, get *corev1.HTTPGetAction) error {
	port, err := t.port(get.Port)
	if err != nil {
		return err
	}
	scheme := strings.ToLower(string(cmp.Or(get.Scheme, corev1.URISchemeHTTP)))
	to, err := url.Parse(get.Path)
	if err != nil {
		return err
	}
	to.Scheme, to.Host = scheme, net.JoinHostPort(cmp.Or(get.Host, t.ip), port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/1.37")
	request.Header.Set("Accept", "*/*")
	for _, h := range get.HTTPHeaders {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			request.Host = h.Value
			continue
		}
		request.Header.Add(h.Name, h.Value)
	}
	transport := &http.Transport{DialContext: t.pods.dial, DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Hostname() != via[0].URL.Hostname() || len(via) >= 10 {
			return http.ErrUseLastResponse // a redirect to another host is a success
		}
		return nil
	}}
	answer, err := c.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, longestProbe))
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", answer.StatusCode)
	}
	return nil
}

// connect opens a connection to the container.
func (t *tender) connect(ctx context.Context, to *corev1.TCPSocketAction) error {
	port, err := t.port(to.Port)
	if err != nil {
		return err
	}
	c, err := t.pods.dial(ctx, "tcp", net.JoinHostPort(cmp.Or(to.Host, t.ip), port))
	if err != nil {
		return err
	}
	return c.Close()
}

// checkHealth calls the health service of the container.
func (t *tender) checkHealth(ctx context.Context, to *corev1.GRPCAction) error {
	address := net.JoinHostPort(t.ip, strconv.Itoa(int(to.Port)))
	dial := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return t.pods.dial(ctx, "tcp", address) })
	c, err := grpc.NewClient("passthrough:///"+address, dial, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/1.37"))
	if err != nil {
		return err
	}
	defer c.Close()
	service := ""
	if to.Service != nil {
		service = *to.Service
	}
	answer, err := healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	if answer.Status != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("service unhealthy (responded with %q)", answer.Status.String())
	}
	return nil
}

// port returns the number of a port, which may be the name of one of the container.
func (t *tender) port(p intstr.IntOrString) (string, error) {
	number := p.IntValue()
	if p.Type == intstr.String {
		for _, own := range t.container.Ports {
			if own.Name == p.StrVal {
				number = int(own.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return "", fmt.Errorf("port %q is unknown", p.String())
	}
	return strconv.Itoa(number), nil
}
