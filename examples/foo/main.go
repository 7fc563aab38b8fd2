// Foo is the sample controller: it keeps a Deployment for each Foo. README.md is its tutorial.
//
//   - api/v1alpha1 has the types, from which manifests/ is generated.
//   - controller.go is the controller.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/examples/foo/api/v1alpha1"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

//go:generate go tool -modfile=../tools/go.mod controller-gen object crd rbac:roleName=foo-controller paths=./... output:crd:dir=manifests/crd output:rbac:dir=manifests/rbac

func main() {
	var opts ctrl.Options
	kubeconfig := flag.String("kubeconfig", "", "a kubeconfig; without it $KUBECONFIG, the service account of the pod, or ~/.kube/config")
	master := flag.String("master", "", "the address of the API server; overrides that of the kubeconfig")
	flag.StringVar(&opts.Metrics.BindAddress, "metrics-bind-address", "0", "address of /metrics, HOST:PORT; 0 disables it")
	flag.StringVar(&opts.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz, HOST:PORT; 0 disables it")
	flag.BoolVar(&opts.LeaderElection, "leader-elect", false, "act only as the elected leader of all running instances of this controller")
	flag.StringVar(&opts.LeaderElectionNamespace, "leader-election-namespace", "", "the namespace of the Lease; required outside of a cluster")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "foo: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}

	err := func() error {
		cfg, err := config(*master, *kubeconfig)
		if err != nil {
			return err
		}
		return run(ctrl.SetupSignalHandler(), cfg, opts)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "foo:", err)
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

// run runs the controller until the context ends.
func run(ctx context.Context, cfg *rest.Config, opts ctrl.Options) error {
	opts.LeaderElectionID = "foo-controller.samplecontroller.k8s.io"
	resync := 30 * time.Second
	opts.Cache.SyncPeriod = &resync
	opts.Scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(opts.Scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Setting up event handlers")
	r := &FooReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorderFor("sample-controller")}
	if err := r.SetupWithManager(mgr); err != nil {
		return err
	}
	for _, add := range []func(string, ctrl.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", ctrl.Ping); err != nil {
			return err
		}
	}
	mgr.GetLogger().Info("Starting Foo controller")
	mgr.GetLogger().Info("Waiting for informer caches to sync")
	return mgr.Start(ctx)
}
