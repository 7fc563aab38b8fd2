package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/connect"
	"github.com/kapok-dev/kapok/internal/forward"
	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// NodeOptions configure connections to kubelets, for logs, exec, attach and portforward of pods and
// for proxies. Zero values mean the defaults.
type NodeOptions struct {
	// ClientCertFile and ClientKeyFile are files in PEM with the client certificate that authenticates
	// this server to kubelets, and its key. They are read again when they change. Default: a
	// certificate of the server's own authority, with the permissions of the cluster role
	// system:kubelet-api-admin; none without a socket.
	ClientCertFile, ClientKeyFile string
	// CAFile is a file in PEM with the authorities of the serving certificates of kubelets. It is read
	// again when it changes. Default: these certificates are not verified, as in kube-apiserver.
	CAFile string
	// AddressTypes are the types of node addresses that are used, the preferred one first. Default:
	// Hostname, InternalDNS, InternalIP, ExternalDNS, ExternalIP.
	AddressTypes []string
	// Timeout limits the time until a connection to a kubelet is established. Default 5 seconds.
	Timeout time.Duration
	// Loopback permits connections to nodes, pods and endpoints with loopback addresses. Users who can
	// write the status of a node or a pod can then reach every program on this machine that trusts
	// connections from it. It is for tests and simulated nodes.
	Loopback bool
	// LoopbackEndpoints permits loopback addresses in Endpoints and EndpointSlices, which Kubernetes
	// rejects. Pods of package node/process have such addresses: without it, their Services have no
	// endpoints. This server itself connects to them only with Loopback.
	LoopbackEndpoints bool
	// Kubelets returns the handler of the kubelet of a node that this program runs itself, such as a
	// simulated one, and nil for other nodes. It is called for each request that goes to a kubelet,
	// which reaches the handler in memory, without TLS; this works in a testing/synctest bubble, too.
	// Stop closes the connections, and waits until the handler has returned from all requests.
	// Default: all nodes are elsewhere.
	Kubelets func(node string) http.Handler
	// DialPod returns a function that connects with the address of a pod in a network that this
	// program has made, and nil for other addresses. The proxies of pods and services use it. Default:
	// all pods are reached by the network of this machine.
	DialPod func(ip netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate returns an error if the options cannot be used. It reads the files.
func (o *NodeOptions) Validate() error {
	if (o.ClientCertFile == "") != (o.ClientKeyFile == "") {
		return fmt.Errorf("Options.Nodes.ClientCertFile is %q and ClientKeyFile is %q: set both or neither", o.ClientCertFile, o.ClientKeyFile)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("Options.Nodes.Timeout is %v: it cannot be negative", o.Timeout)
	}
	for _, kind := range o.AddressTypes {
		if kind == "" {
			return errors.New("Options.Nodes.AddressTypes has an empty element: want types like InternalIP")
		}
	}
	if o.ClientCertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.ClientCertFile, o.ClientKeyFile); err != nil {
			return fmt.Errorf("Options.Nodes.ClientCertFile and ClientKeyFile: %w", err)
		}
	}
	return nil
}

// connector returns what connects to nodes, and the files to watch.
func (o *NodeOptions) connector(ctx context.Context, p *parts, inside func(node string) forward.Dial) (_ *connect.Connector, files []*reload.File, err error) {
	options := connect.Options{State: p.state, Timeout: o.Timeout, Loopback: o.Loopback, Inside: inside}
	if o.DialPod != nil {
		options.DialPod = func(ip netip.Addr) forward.Dial { return o.DialPod(ip) }
	}
	for _, kind := range o.AddressTypes {
		options.AddressTypes = append(options.AddressTypes, corev1.NodeAddressType(kind))
	}
	if p.address != "" {
		if options.Self, err = netip.ParseAddrPort(p.address); err != nil {
			return nil, nil, fmt.Errorf("the address of the socket: %w", err)
		}
	}
	switch {
	case o.ClientCertFile != "":
		var pair atomic.Pointer[tls.Certificate]
		file, err := reload.Open(ctx, "client certificate for kubelets", func(_ context.Context, contents [][]byte) error {
			next, err := tls.X509KeyPair(contents[0], contents[1])
			if err == nil {
				pair.Store(&next)
			}
			return err
		}, o.ClientCertFile, o.ClientKeyFile)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
		options.ClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Load(), nil }
	case p.authority != nil:
		options.ClientCertificate = (&kubeletClient{authority: p.authority}).certificate
	}
	c := connect.New(options)
	if o.CAFile == "" {
		return c, files, nil
	}
	file, err := reload.Open(ctx, "authorities of kubelets", func(_ context.Context, contents [][]byte) error {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return errors.New("the file holds no certificate in PEM")
		}
		c.Trust(pool)
		return nil
	}, o.CAFile)
	if err != nil {
		c.Close()
		return nil, nil, fmt.Errorf("Options.Nodes.CAFile: %w", err)
	}
	return c, append(files, file), nil
}

// reachNodes prepares the connections to nodes, which end with the handler.
func (p *parts) reachNodes(ctx context.Context, store *resource.Store, closers *closers) (*connect.Connector, error) {
	o := &p.options.Nodes
	if o.ClientCertFile == "" && p.authority != nil {
		if err := bootstrap.EnsureKubeletAdmins(ctx, store); err != nil {
			return nil, err
		}
	}
	var inside func(node string) forward.Dial
	if o.Kubelets != nil {
		own := serveServices(func(_, node string) http.Handler { return o.Kubelets(node) }, p.options.Logger)
		closers.do(own.close)
		inside = func(node string) forward.Dial {
			connect := own.find("", node)
			if connect == nil {
				return nil
			}
			return func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }
		}
	}
	c, files, err := o.connector(ctx, p, inside)
	if err != nil {
		return nil, err
	}
	closers.do(c.Close)
	if len(files) > 0 {
		closers.do(background(func(ctx context.Context) { reload.Watch(ctx, p.options.Logger, files...) }))
	}
	return c, nil
}

const (
	kubeletClientLife    = 30 * 24 * time.Hour
	kubeletClientReserve = 10 * 24 * time.Hour // before its end, a certificate is replaced
)

// kubeletClient is the certificate of this server for kubelets, which exists in memory only.
type kubeletClient struct {
	authority *pki.Authority

	mu   sync.Mutex
	pair *tls.Certificate // nil before the first use
	end  time.Time        // of its validity
}

// certificate returns the certificate for a connection.
func (k *kubeletClient) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.pair != nil && now.Add(kubeletClientReserve).Before(k.end) {
		return k.pair, nil
	}
	made, err := k.authority.Client(authn.KubeletClient, []string{authn.KubeletAdmins}, kubeletClientLife, now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(made.Certificate, made.Key)
	if err != nil {
		return nil, err
	}
	k.pair, k.end = &pair, made.NotAfter
	return k.pair, nil
}
