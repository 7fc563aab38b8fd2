// At runs commands at times: it is the controller of the cloud-native At, whose kind is in
// api/v1alpha1. README.md is the tutorial.
//
// step.go decides what an At needs at a time, and controller.go does it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/examples/at/api/v1alpha1"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

//go:generate go tool -modfile=../tools/go.mod controller-gen object crd rbac:roleName=at paths=./... output:crd:dir=manifests/crd output:rbac:dir=manifests/rbac

func main() {
	var options ctrl.Options
	flag.StringVar(&options.Metrics.BindAddress, "metrics-bind-address", "0", "where metrics are served, as :8080; 0: nowhere")
	flag.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0", "where probes are answered, as :8081; 0: nowhere")
	flag.BoolVar(&options.LeaderElection, "leader-elect", false, "act only while this is the leader of all managers that run")
	flag.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "", "where the lease is (default: the namespace of the pod)")
	ctrl.RegisterFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "at: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}

	if err := run(ctrl.SetupSignalHandler(), options); err != nil {
		fmt.Fprintln(os.Stderr, "at:", err)
		os.Exit(1)
	}
}

// run runs Ats until ctx is done.
func run(ctx context.Context, options ctrl.Options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, options)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager with the controller of Ats.
func newManager(cfg *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options.Scheme = scheme
	options.LeaderElectionID = "at.cnat.programming-kubernetes.info"
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, err
	}
	if err := (&AtReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("at")}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("controller of Ats: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", ctrl.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("readyz", ctrl.Ping)
}

// newScheme returns a Scheme with the types of At and of Kubernetes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
}
