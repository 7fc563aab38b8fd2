package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/transport"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
)

// TestShutdownDelay checks that a server that is to stop serves for the delay, while it is not
// ready.
func TestShutdownDelay(t *testing.T) {
	for name, tc := range map[string]struct {
		stop func(*Server) error
		want time.Duration
	}{
		"stop": {(*Server).Stop, time.Minute},
		"shutdown hurries": {func(s *Server) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return s.Shutdown(ctx)
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Start(t.Context(), Options{ShutdownDelay: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				config := s.Config()
				c := client(t, config)
				if code, body := get(t, c, config.Host+"/readyz"); code != http.StatusOK {
					t.Fatalf("before: %d %s", code, body)
				}
				began, stopped := time.Now(), make(chan error)
				go func() { stopped <- tc.stop(s) }()
				synctest.Wait()
				for path, want := range map[string]int{"/readyz": 500, "/livez": 200, "/api/v1/namespaces": 200} {
					if code, body := get(t, c, config.Host+path); code != want {
						t.Errorf("%s in the delay: %d %s, want %d", path, code, body, want)
					}
				}
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < tc.want || took > tc.want+time.Second {
					t.Errorf("stopped after %v, want %v", took, tc.want)
				}
			})
		})
	}
}

// TestCurvePreferences checks that the server completes only handshakes with an allowed key
// exchange.
func TestCurvePreferences(t *testing.T) {
	s := start(t, Options{Listen: anyPort, Serving: transport.ServingOptions{CurvePreferences: []int{int(tls.X25519)}}})
	for curve, want := range map[tls.CurveID]bool{tls.X25519: true, tls.CurveP256: false} {
		c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{curve}})
		if (err == nil) != want {
			t.Errorf("%v: %v", curve, err)
		}
		if err == nil {
			c.Close()
		}
	}
}

// TestEventTTL checks when events are deleted.
func TestEventTTL(t *testing.T) {
	for ttl, after := range map[time.Duration]time.Duration{0: time.Hour, 3 * time.Hour: 3 * time.Hour, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, Options{EventTTL: ttl})
			client, err := kubernetes.NewForConfig(s.Config())
			if err != nil {
				t.Fatal(err)
			}
			events := client.CoreV1().Events("default")
			if _, err := events.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			exists := func() bool {
				_, err := events.Get(t.Context(), "e", metav1.GetOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
				return err == nil
			}
			if after == 0 {
				time.Sleep(24 * time.Hour)
				if !exists() {
					t.Error("an event without an end was deleted")
				}
			} else {
				time.Sleep(after - time.Minute)
				if !exists() {
					t.Errorf("EventTTL %v: deleted too early", ttl)
				}
				time.Sleep(2 * time.Minute)
				if exists() {
					t.Errorf("EventTTL %v: still exists", ttl)
				}
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKubernetesNodePort checks that the service kubernetes gets its node port.
func TestKubernetesNodePort(t *testing.T) {
	s := start(t, Options{KubernetesNodePort: 30443})
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	service, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort != 30443 {
		t.Errorf("%+v, %v", service.Spec, err)
	}
}

// TestNodePorts checks the range of node ports, which a service can exhaust.
func TestNodePorts(t *testing.T) {
	s := start(t, Options{NodePorts: utilnet.PortRange{Base: 8000, Size: 2}})
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string, port int32) (int32, error) {
		made, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
		return made.Spec.Ports[0].NodePort, nil
	}
	if _, err := create("outside", 30000); err == nil || !strings.Contains(err.Error(), "The range of valid ports is 8000-8001") {
		t.Errorf("a port outside of the range: %v", err)
	}
	one, err := create("one", 0)
	if err != nil {
		t.Fatal(err)
	}
	two, err := create("two", 0)
	if err != nil || one+two != 8000+8001 {
		t.Errorf("ports %d and %d, %v", one, two, err)
	}
	if _, err := create("three", 0); err == nil {
		t.Error("there was a third port")
	}
}

// TestAddresses checks where clients and pods are sent.
func TestAddresses(t *testing.T) {
	s := start(t, Options{Listen: anyPort, ExternalHost: "kapok.example.com", AdvertiseAddress: netip.MustParseAddr("10.1.2.3")})
	port := s.Address()[strings.LastIndex(s.Address(), ":"):]
	config := adminConfig(t, s)
	c := client(t, config)
	for path, want := range map[string]string{
		"/api":                              `"serverAddress":"kapok.example.com` + port + `"`,
		"/.well-known/openid-configuration": `"jwks_uri":"https://kapok.example.com` + port + `/openid/v1/jwks"`,
		"/api/v1/namespaces/default/endpoints/kubernetes": `"ip":"10.1.2.3"`,
	} {
		if _, body := get(t, c, config.Host+path); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
	if err := presented(t, s).VerifyHostname("10.1.2.3"); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{
		{Listen: anyPort, ExternalHost: "https://a"}, {Listen: anyPort, ExternalHost: "a:0"}, {Listen: anyPort, ExternalHost: "a:https"},
		{Listen: anyPort, ExternalHost: "A"}, {ExternalHost: "a"},
		{Listen: anyPort, AdvertiseAddress: netip.IPv4Unspecified()}, {AdvertiseAddress: netip.MustParseAddr("10.1.2.3")},
		{NodePorts: utilnet.PortRange{Base: 0, Size: 10}}, {NodePorts: utilnet.PortRange{Base: 65535, Size: 2}}, {NodePorts: utilnet.PortRange{Base: 5}},
		{ShutdownDelay: -1}, {ShutdownWatchGrace: -1}, {KubernetesNodePort: 80}, {KubernetesNodePort: 30000, NodePorts: utilnet.PortRange{Base: 8000, Size: 2}}, {Listen: anyPort, Serving: transport.ServingOptions{MaxStreams: -1}}, {Listen: anyPort, Serving: transport.ServingOptions{CurvePreferences: []int{7}}},
	} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v is valid", o)
		}
	}
	for host, want := range map[string]string{"": "127.0.0.1:7", "a": "a:7", "a:1": "a:1", "::1": "[::1]:7", "[::1]:2": "[::1]:2"} {
		p := parts{address: "127.0.0.1:7", options: Options{Listen: anyPort, ExternalHost: host}}
		if err := p.options.Validate(); err != nil || p.external() != want {
			t.Errorf("ExternalHost %q: %s, %v, want %s", host, p.external(), err, want)
		}
	}
}

// TestNamedCertificates checks that a client gets the certificate of the name that it connects to,
// and the next one when the file has changed; and that HTTP/2 can be turned off.
func TestNamedCertificates(t *testing.T) {
	ca, dir := newOtherCA(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	issue := func(name string) {
		cert, key := ca.pair(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"web.example.com"}})
		write(t, certFile, cert)
		write(t, keyFile, key)
	}
	issue("one")
	s := start(t, Options{Listen: anyPort, Serving: transport.ServingOptions{
		Named: []transport.NamedCertificate{{CertFile: certFile, KeyFile: keyFile}}, NoHTTP2: true,
	}})
	stopFollowing(s)
	shown := func(name string) (subject, protocol string) {
		t.Helper()
		c, err := tls.Dial("tcp", s.Address(), &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		state := c.ConnectionState()
		return state.PeerCertificates[0].Subject.CommonName, state.NegotiatedProtocol
	}
	if got, protocol := shown("web.example.com"); got != "one" || protocol != "http/1.1" {
		t.Errorf("presented %q over %s", got, protocol)
	}
	if got, _ := shown("other.example.com"); got == "one" {
		t.Error("another name gets the certificate, too")
	}
	issue("two")
	reloadFiles(s)
	if got, _ := shown("web.example.com"); got != "two" {
		t.Errorf("after a change, presented %q", got)
	}
}
