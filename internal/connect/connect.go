// Package connect passes requests for logs, exec, attach, portforward and proxy on to kubelets,
// pods and services.
//
// [Connector.Locate] computes a [Target] of an object and the admitted parameters of a request,
// with the rules and messages of kube-apiserver: pkg/registry/core/{pod,node,service} in
// k8s.io/kubernetes. [Connector.Serve] sends the request there, and passes the response or the
// upgraded connection through unchanged: kubelets speak the protocols of clients themselves.
//
// A user who can write the status of a node or a pod chooses the address that such a request goes
// to. A Connector therefore checks the IP address of each connection after names have been
// resolved: it reaches neither this server nor addresses that mean something else on this machine
// than elsewhere, such as loopback and link-local ones.
//
// A Connector is safe for concurrent use, and starts no goroutine besides those of its transports.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/forward"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	corev1 "k8s.io/api/core/v1"
)

// Options configure a Connector. Only State is required.
type Options struct {
	// State has the nodes, pods, services and EndpointSlices.
	State *state.State
	// AddressTypes are the types of node addresses, the preferred one first. Default:
	// DefaultAddressTypes.
	AddressTypes []corev1.NodeAddressType
	// ClientCertificate returns the certificate that authenticates this server to kubelets. It is
	// called for each connection. Default: none is sent.
	ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// Timeout limits the time until a connection is established. Default: DefaultTimeout.
	Timeout time.Duration
	// Dial opens connections. Default: those of the operating system, whose addresses are checked. A
	// function must check them itself.
	Dial forward.Dial
	// DialPod returns what opens connections to the address of a pod in a network that this process
	// has made; nil for other addresses. Default: there are none.
	DialPod func(ip netip.Addr) forward.Dial
	// Loopback permits connections to loopback addresses.
	Loopback bool
	// Inside returns what opens connections to the kubelet of a node that runs in this process, which
	// serves plain HTTP; nil for other nodes. Default: there are none.
	Inside func(node string) forward.Dial
	// Self is the address on which this server listens, which a Connector does not connect to. An
	// unspecified IP address stands for all addresses of this machine. Default: it listens nowhere.
	Self netip.AddrPort
}

// DefaultTimeout is the default of Options.Timeout, that of kube-apiserver.
const DefaultTimeout = 5 * time.Second

// DefaultAddressTypes returns the default of Options.AddressTypes, that of kube-apiserver.
func DefaultAddressTypes() []corev1.NodeAddressType {
	return []corev1.NodeAddressType{corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeExternalDNS, corev1.NodeExternalIP}
}

// A Connector passes requests on. Make one with [New].
type Connector struct {
	options Options
	slices  webhook.Slices
	guard   *guard
	dialer  *forward.Dialer
	within  *forward.Dialer // connections in this process

	kubelets   atomic.Pointer[forward.Transports] // replaced by Trust
	unverified forward.Transports                 // to kubelets whose certificates are not verified
	others     forward.Transports                 // to anything else: without a client certificate, not verified
	inside     forward.Transports                 // to kubelets in this process; hosts are the names of nodes
}

// New returns a Connector that does not verify the certificates of kubelets, see [Connector.Trust].
// The caller must call Close.
func New(o Options) *Connector {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if len(o.AddressTypes) == 0 {
		o.AddressTypes = DefaultAddressTypes()
	}
	g := &guard{loopback: o.Loopback, self: o.Self}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second, Control: g.control}).DialContext
	}
	if o.DialPod != nil {
		o.Dial = withPods(o.DialPod, o.Dial)
	}
	c := &Connector{
		options: o,
		slices:  webhook.SlicesIn(o.State),
		guard:   g,
		dialer:  forward.NewDialer(o.Dial),
	}
	c.unverified = c.transports(&tls.Config{InsecureSkipVerify: true, GetClientCertificate: o.ClientCertificate})
	c.others = c.transports(&tls.Config{InsecureSkipVerify: true})
	c.within = forward.NewDialer(c.dialInside)
	c.inside = c.within.Transports(&tls.Config{MinVersion: tls.VersionTLS12})
	c.Trust(nil)
	return c
}

// withPods returns what opens connections to pods in networks of this process, and to other
// addresses.
func withPods(pods func(netip.Addr) forward.Dial, other forward.Dial) forward.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if at, err := netip.ParseAddrPort(address); err == nil {
			if dial := pods(at.Addr().Unmap()); dial != nil {
				return dial(ctx, network, address)
			}
		}
		return other(ctx, network, address)
	}
}

// dialInside opens a connection to the kubelet of a node in this process.
func (c *Connector) dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	node, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dial := c.kubeletInside(node)
	if dial == nil {
		return nil, fmt.Errorf("the kubelet of node %s has ended", node)
	}
	return dial(ctx, network, address)
}

// kubeletInside returns what opens connections to the kubelet of a node in this process, nil if it
// is elsewhere.
func (c *Connector) kubeletInside(node string) forward.Dial {
	if c.options.Inside == nil {
		return nil
	}
	return c.options.Inside(node)
}

func (c *Connector) transports(secure *tls.Config) forward.Transports {
	secure.MinVersion = tls.VersionTLS12
	t := c.dialer.Transports(secure)
	t.Plain.TLSHandshakeTimeout, t.Upgrades.TLSHandshakeTimeout = c.options.Timeout, c.options.Timeout
	return t
}

// Trust replaces the authorities with which the certificates of kubelets are verified; with nil
// they are not verified. Requests under way continue.
func (c *Connector) Trust(authorities *x509.CertPool) {
	next := c.unverified
	if authorities != nil {
		next = c.transports(&tls.Config{RootCAs: authorities, GetClientCertificate: c.options.ClientCertificate})
	}
	if last := c.kubelets.Swap(&next); last != nil {
		last.CloseIdle()
	}
}

// Close closes all connections.
func (c *Connector) Close() {
	c.dialer.Close()
	c.within.Close()
}

// transport returns the transport for a request to a target.
func (c *Connector) transport(t *Target, r *http.Request) http.RoundTripper {
	switch {
	case t.Inside:
		return c.inside.For(r)
	case !t.Kubelet:
		return c.others.For(r)
	case t.Unverified:
		return c.unverified.For(r)
	}
	return c.kubelets.Load().For(r)
}

func (c *Connector) get(key object.Key) *object.Object {
	o, _ := c.options.State.Get(key)
	return o
}
