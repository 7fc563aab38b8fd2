// Network is the custom controller of the Network kind: it makes the networks of a provider, such
// as an OpenStack cloud, match the Network objects. README.md is its tutorial.
//
//   - api/v1 has the types, from which manifests/ is generated.
//   - controller.go is the controller; deployments.go is a second one, which creates a Network for
//     each Deployment.
//   - provider defines a provider of networks. There are two: memory and neutron.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/kapok-dev/kapok/ctrl"
	v1 "github.com/kapok-dev/kapok/examples/network/api/v1"
	"github.com/kapok-dev/kapok/examples/network/provider"
	"github.com/kapok-dev/kapok/examples/network/provider/memory"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

//go:generate go tool -modfile=../tools/go.mod controller-gen object crd rbac:roleName=network-controller paths=./... output:crd:dir=manifests/crd output:rbac:dir=manifests/rbac

// settings are the values of the flags.
type settings struct {
	manager  ctrl.Options
	provider string
	cluster  string        // as Neutron's names call it
	period   time.Duration // of comparing what has not changed
	pool     string        // of the addresses of Deployments; "": they get no Networks
}

func main() {
	var s settings
	kubeconfig := flag.String("kubeconfig", "", "a kubeconfig; without it $KUBECONFIG, the service account of the pod, or ~/.kube/config")
	master := flag.String("master", "", "the address of the API server; overrides that of the kubeconfig")
	flag.StringVar(&s.manager.Metrics.BindAddress, "metrics-bind-address", "0", "address of /metrics, HOST:PORT; 0 disables it")
	flag.StringVar(&s.manager.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz, HOST:PORT; 0 disables it")
	flag.BoolVar(&s.manager.LeaderElection, "leader-elect", false, "act only as the elected leader of all running instances of this controller")
	flag.StringVar(&s.manager.LeaderElectionNamespace, "leader-election-namespace", "", "the namespace of the Lease; required outside of a cluster")
	flag.StringVar(&s.provider, "provider", "memory", "the provider of networks: memory, which only logs what it would do, or neutron, configured by the OS_* variables")
	flag.StringVar(&s.cluster, "cluster-name", "kubernetes", "the first part of the names of networks at Neutron")
	flag.DurationVar(&s.period, "compare-period", 5*time.Minute, "interval between comparisons of unchanged networks with the provider")
	flag.StringVar(&s.pool, "deployment-networks", "", "make a Network for each Deployment, of addresses from this range, like 10.0.0.0/8")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "network: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx := ctrl.SetupSignalHandler()
	err := func() error {
		cfg, err := config(*master, *kubeconfig)
		if err != nil {
			return err
		}
		networks, err := s.newProvider(ctx)
		if err != nil {
			return err
		}
		return s.run(ctx, cfg, networks)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

// config returns the configuration for the API server: from the flags, or else from the usual
// places.
func config(master, kubeconfig string) (*rest.Config, error) {
	if master == "" && kubeconfig == "" {
		return ctrl.GetConfig()
	}
	cfg, err := clientcmd.BuildConfigFromFlags(master, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("API server configuration: %w", err)
	}
	cfg.QPS = -1 // the server limits
	return cfg, nil
}

func (s settings) newProvider(ctx context.Context) (provider.Provider, error) {
	switch s.provider {
	case "memory":
		return memory.New(os.Stderr), nil
	case "neutron":
		opts, err := neutron.FromEnvironment()
		if err != nil {
			return nil, err
		}
		opts.Cluster = s.cluster
		opts.HTTPClient = &http.Client{Timeout: time.Minute}
		return neutron.New(ctx, opts)
	}
	return nil, fmt.Errorf("provider %q: want memory or neutron", s.provider)
}

// run runs the controllers until the context ends.
func (s settings) run(ctx context.Context, cfg *rest.Config, networks provider.Provider) error {
	opts := s.manager
	opts.LeaderElectionID = "network-controller.samplecrd.k8s.io"
	opts.Scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(opts.Scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Setting up event handlers")
	if err := (&NetworkReconciler{Client: mgr.GetClient(), Provider: networks, Period: s.period}).SetupWithManager(mgr); err != nil {
		return err
	}
	if s.pool != "" {
		pool, err := netip.ParsePrefix(s.pool)
		if err != nil {
			return fmt.Errorf("networks of deployments: %w", err)
		}
		if pool.Addr().BitLen()-pool.Bits() < 2 {
			return fmt.Errorf("networks of deployments: %s has no room for a network with a gateway", pool)
		}
		r := &DeploymentReconciler{Client: mgr.GetClient(), Pool: pool, Bits: max(pool.Bits(), pool.Addr().BitLen()*3/4)}
		if err := r.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	for _, add := range []func(string, ctrl.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", ctrl.Ping); err != nil {
			return err
		}
	}
	mgr.GetLogger().Info("Starting Network control loop")
	mgr.GetLogger().Info("Waiting for informer caches to sync")
	return mgr.Start(ctx)
}
