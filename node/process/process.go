// Package process runs a node whose containers are processes of this machine: no daemon, no root.
// It is for development, where an operator and what it creates run beside the server.
//
//	func main() {
//		process.Main()
//		...
//		node := &process.Node{Options: process.Options{Dir: "/home/me/.local/share/kapok/processes"}}
//		kapok.Start(ctx, kapok.Options{Controllers: node, Nodes: kapok.NodeOptions{Kubelets: node.Handler}, ...})
//
// A container runs the program that its image stands for (image.go): a file, a package of Go, or
// the program of an OCI image, from Options.Store. Pods have the phases, conditions, restarts,
// back-offs, probes, hooks, init containers and sidecars that they have on a kubelet of Kubernetes
// 1.37. docs/processes.md lists what is missing.
//
// # Permissions
//
// Containers have all permissions of the user that runs this process, and see its files, its
// network and its other processes; with Options.Isolate they see their own ones. A client that may
// create pods, or a workload that creates them, runs programs as that user.
//
// # State
//
// What runs, and how it has ended, is in the files of package proc, which survive a crash: the next
// Node adopts what still runs. decide (decide.go) computes the next steps of a pod and its status
// as a function of these, the pod, and the time. The back-offs of images and the results of probes
// are in memory and begin again.
//
// # Goroutines and locks
//
// Run owns all goroutines: the workers of three controllers, those of the proxy of Services
// (package proxy), one for each container with probes or hooks, one for each container that stops,
// one for each program that is prepared, and one that looks at what files use. With Options.Isolate
// there is a second proxy, in the network of pods (network.go). It returns when all have ended.
// Each type has one lock. That of pods is taken before that of a stopping; no other one is held
// while another one is taken.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/node/internal/kubelet"
	"github.com/kapok-dev/kapok/node/internal/proc"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
)

const (
	// NodeAnnotation is the annotation of the node, with the value Process.
	NodeAnnotation = "kapok.dev/node"
	// Process is the value of NodeAnnotation.
	Process = "process"
)

// defaultPods is the range of the addresses of pods in the network of this machine.
var defaultPods = netip.MustParsePrefix("127.77.0.0/16")

// Main turns this process into the parent of a container if a Node has started it for that, and
// then does not return. A program that runs a Node calls it first in its function main, or in
// TestMain.
func Main() { proc.Main() }

// Options configure a Node. Only Dir is required.
type Options struct {
	// Name is the name of the node. Default: the host name of this machine.
	Name string
	// Dir is the directory for the files of containers, such as their logs. One Node uses it at a
	// time.
	Dir string
	// Tether ends all containers when this process ends, for whatever reason. Default: after a crash
	// they continue to run, and the next Node with the same Dir adopts them. Set it if the objects of
	// the server are lost at its end.
	Tether bool
	// WorkDir is the directory for relative paths of programs, and for builds of packages. Default:
	// the working directory.
	WorkDir string
	// Images maps images to programs: see ParseImage.
	Images map[string]string
	// Store provides OCI images, for programs such as archive://PATH and registry://REFERENCE.
	// Default: none.
	Store ImageStore
	// Metrics, if not nil, serves what the containers use (Linux).
	Metrics *Metrics
	// Server returns host and port of the API server for containers, "" if it has none. It is called
	// before each start of a container. Default: none.
	Server func(context.Context) string
	// Isolate gives each container a root directory and namespaces of processes, mounts and host name
	// of its own, which takes user namespaces of Linux: Run returns an error if the system does not
	// permit them. Default: containers see the files and processes of the machine.
	Isolate bool
	// SharedNetwork leaves containers in the network of this machine with Isolate, too. Default: pods
	// have a network of their own with Isolate, if the system permits it; Run logs why not.
	SharedNetwork bool
	// Services is the range of the addresses of Services. Default: 127.96.0.0/12.
	Services netip.Prefix
	// NoNames leaves /etc/hosts of containers as it is. Default: on Linux, if the system permits it,
	// containers have mounts of their own, with an /etc/hosts that has the names of Services, and the
	// hostAliases of the pod.
	NoNames bool
	// StopGrace limits the time that containers have to end when Run ends. Default 5 s.
	StopGrace time.Duration
}

func (o Options) complete() (Options, error) {
	if o.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("the name of the node: %w", err)
		}
		o.Name = strings.ToLower(name)
	}
	if o.WorkDir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return o, err
		}
		o.WorkDir = dir
	}
	if !o.Services.IsValid() {
		o.Services = DefaultServices
	}
	if o.Server == nil {
		o.Server = func(context.Context) string { return "" }
	}
	if o.StopGrace == 0 {
		o.StopGrace = 5 * time.Second
	}
	var err error
	if o.Dir != "" {
		o.Dir, err = filepath.Abs(o.Dir)
	}
	return o, err
}

// Validate returns an error that names the first invalid field and its rule.
func (o Options) Validate() error {
	if !supported {
		return proc.ErrUnsupported
	}
	o, err := o.complete()
	if err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(o.Name); len(problems) > 0 {
		return fmt.Errorf("option Name is %q: %s", o.Name, strings.Join(problems, ", "))
	}
	if o.Dir == "" {
		return errors.New("option Dir is empty: want a directory")
	}
	if info, err := os.Stat(o.WorkDir); err != nil || !info.IsDir() {
		return fmt.Errorf("option WorkDir is %q: want a directory", o.WorkDir)
	}
	for image, program := range o.Images {
		if _, _, err := ParseImage(image + "=" + program); err != nil {
			return fmt.Errorf("option Images: %w", err)
		}
	}
	if o.StopGrace < 0 {
		return fmt.Errorf("option StopGrace is %v: must not be negative", o.StopGrace)
	}
	return nil
}

// A Node is a node of processes. It is used once: its methods are those of
// kapok.Options.Controllers, and Handler is for kapok.NodeOptions.Kubelets.
type Node struct {
	Options
	runs atomic.Pointer[pods] // nil unless Run has started it
}

// Run runs the node against the server of cfg until ctx ends, and returns after all containers have
// ended, or the error that ended it. Metrics are registered in a registry that may have them
// already; nil is one of its own. The last argument has no effect: a node belongs to its machine,
// so each of several servers runs its own.
func (n *Node) Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, _ bool) error {
	o, err := n.Options.complete()
	if err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	p, err := newPods(o)
	if err != nil {
		return err
	}
	defer p.close()
	if o.Isolate {
		if err := p.runtime.Isolates(ctx); err != nil {
			return err
		}
		if !o.SharedNetwork {
			if p.network, err = openNetwork(p.ctx, p.runtime, o.Services, log); err != nil {
				log.Warn("Pods have the network of this machine, in which two of them cannot listen at one port of all addresses", "error", err)
			} else {
				p.addresses.Reserve(p.network.options.Gateway())
			}
		}
	}
	if err := p.runtime.Limit(); err != nil {
		log.Warn("Limits of memory, processors and processes are not enforced, or not all of them", "error", err)
	}
	n.runs.Store(p)
	return kubelet.Run(ctx, cfg, log, metrics, false, p.add)
}

// Handler returns the handler of the kubelet of a node, nil if it is another one.
func (n *Node) Handler(node string) http.Handler {
	p := n.runs.Load()
	if p == nil || node != p.options.Name || p.live.Load() == nil {
		return nil
	}
	return &server{pods: p}
}

// DialPod returns a function that connects with an address of a pod of the node in a network of its
// own; nil for other addresses. It is for kapok.NodeOptions.DialPod.
func (n *Node) DialPod(ip netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	p := n.runs.Load()
	if p == nil || !p.network.has(ip) {
		return nil
	}
	return p.dial
}

// Dial connects with an address of a pod of the node, or with another address as net.Dialer does.
// It is for the connections of the server to webhooks and extension servers.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p := n.runs.Load(); p != nil {
		return p.dial(ctx, network, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
