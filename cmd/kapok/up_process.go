package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/kapok-dev/kapok"
	processnode "github.com/kapok-dev/kapok/node/process"
	"github.com/kapok-dev/kapok/node/process/oci"

	"github.com/spf13/pflag"
)

// processServices is the default range of cluster IPs with --node process, whose proxy listens at
// addresses of the loopback interface.
var processServices = processnode.DefaultServices

// processNode is the node of --node process.
type processNode struct {
	kind        string
	options     processnode.Options
	images      []string
	names       bool
	network     bool
	isolate     bool
	anyListener bool
	lookup      func(ctx context.Context, host string) ([]string, error) // nil: that of the system

	node    *processnode.Node // nil without the flag
	started chan struct{}     // is closed when address is set
	address string            // of the server, for containers
}

func processFlags(f *pflag.FlagSet, n *processNode) {
	f.StringVar(&n.kind, "node", "", "kind of node to run besides simulated ones: process, whose containers are processes of this machine with all permissions of this user")
	f.StringVar(&n.options.Name, "node-name", "", "name of the node of --node (default: the host name)")
	f.StringVar(&n.options.WorkDir, "node-workdir", "", "directory for relative paths in --image, builds of go:// images, and containers without a workingDir (default: the working directory)")
	f.StringArrayVar(&n.images, "image", nil, "program that an image stands for on --node process, IMAGE=PATH, IMAGE=go://PACKAGE, IMAGE=archive://FILE or IMAGE=registry://REFERENCE; may be repeated")
	f.BoolVar(&n.names, "node-names", true, "give containers of --node process an /etc/hosts with the names of services, if the system permits it (Linux)")
	f.BoolVar(&n.isolate, "isolate", false, "give each container of --node process a root directory, processes, mounts and a host name of its own, and each pod a network, by user namespaces (Linux)")
	f.BoolVar(&n.network, "node-network", true, "give pods of --isolate a network of their own, if the system permits it, instead of that of this machine")
	f.BoolVar(&n.anyListener, "node-process-any-listener", false, "permit --node process although --listen is not a loopback address: users on other machines that may create pods then run programs on this one")
}

// complete checks the flags, and returns the node; nil without one.
func (n *processNode) complete(listen string) (*processnode.Node, error) {
	switch n.kind {
	case "":
		if n.options.Name != "" || n.options.WorkDir != "" || len(n.images) > 0 || n.isolate || n.anyListener {
			return nil, errors.New("--node-name, --node-workdir, --image, --isolate and --node-process-any-listener have no effect without --node process")
		}
		return nil, nil
	case processnode.Process:
	default:
		return nil, fmt.Errorf("--node %q: want process", n.kind)
	}
	if !n.anyListener && !n.isLoopback(listen) {
		return nil, fmt.Errorf("--node process with --listen %s: users on other machines that may create pods could run programs on this one; confirm with --node-process-any-listener", listen)
	}
	o := n.options
	o.NoNames, o.Isolate, o.SharedNetwork = !n.names, n.isolate, !n.network
	o.Images = map[string]string{}
	for _, text := range n.images {
		image, program, err := processnode.ParseImage(text)
		if err != nil {
			return nil, fmt.Errorf("--image %w", err)
		}
		o.Images[image] = program
	}
	if o.WorkDir != "" {
		dir, err := filepath.Abs(o.WorkDir)
		if err != nil {
			return nil, fmt.Errorf("--node-workdir: %w", err)
		}
		o.WorkDir = dir
	}
	n.started = make(chan struct{})
	o.Server = func(ctx context.Context) string {
		select {
		case <-n.started:
		case <-ctx.Done():
		}
		return n.address
	}
	n.node = &processnode.Node{Options: o}
	return n.node, nil
}

// place gives the node its directory: below that of the data, or a temporary one with the
// containers of a server in memory, which end with it.
func (n *processNode) place(dataDir string) (remove func(), err error) {
	if n.node == nil {
		return func() {}, nil
	}
	removeDir := func() {}
	if dataDir != "" {
		n.node.Dir = filepath.Join(dataDir, "processes")
	} else {
		n.node.Tether = true
		if n.node.Dir, err = os.MkdirTemp("", "kapok-processes-"); err != nil {
			return nil, err
		}
		removeDir = func() { os.RemoveAll(n.node.Dir) }
	}
	store, err := oci.Open(oci.Options{Dir: filepath.Join(n.node.Dir, "oci")})
	if err != nil {
		removeDir()
		return nil, fmt.Errorf("open the store of OCI images: %w", err)
	}
	n.node.Store = store
	return func() {
		store.Close()
		removeDir()
	}, nil
}

// serve notes the address of the server.
func (n *processNode) serve(s *kapok.Server) {
	if n.node == nil {
		return
	}
	n.address = s.Address()
	if at, err := netip.ParseAddrPort(n.address); err == nil && at.Addr().IsUnspecified() {
		n.address = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port()).String()
	}
	close(n.started)
}

// reachPods lets the server connect with pods of a node in a network of their own.
func reachPods(o *kapok.Options, n *processnode.Node) {
	o.Nodes.DialPod, o.Webhooks.Dial, o.Aggregation.Dial = n.DialPod, n.Dial, n.Dial
}

// kubelets returns a function that finds the kubelet of a node among several.
func kubelets(all ...func(string) http.Handler) func(string) http.Handler {
	return func(node string) http.Handler {
		for _, find := range all {
			if h := find(node); h != nil {
				return h
			}
		}
		return nil
	}
}

// isLoopback reports whether an address to listen on is reachable from this machine only. The only
// name is localhost, and only if it has no other addresses.
func (n *processNode) isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	all := []string{host}
	if host == "localhost" {
		lookup := n.lookup
		if lookup == nil {
			lookup = net.DefaultResolver.LookupHost
		}
		if all, err = lookup(context.Background(), host); err != nil || len(all) == 0 {
			return false
		}
	}
	for _, text := range all {
		if ip, err := netip.ParseAddr(text); err != nil || !ip.Unmap().IsLoopback() {
			return false
		}
	}
	return true
}
