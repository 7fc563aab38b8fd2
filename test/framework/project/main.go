// Command project is an operator as kubebuilder scaffolds one, on controller-runtime: each
// Deployment with the label "expose" gets a Service. Its files are also built with nothing changed
// but their imports, on Kapok's framework.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

func main() {
	var probes string
	var elect bool
	flag.StringVar(&probes, "health-probe-bind-address", ":8081", "")
	flag.BoolVar(&elect, "leader-elect", false, "")
	flag.Parse()

	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	log := ctrl.Log.WithName("setup")
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: probes,
		LeaderElection:         elect,
		LeaderElectionID:       "80807133.example.com",
	})
	if err != nil {
		log.Error(err, "unable to start manager")
		os.Exit(1)
	}
	if err := (&ExposeReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Recorder: mgr.GetEventRecorder("expose")}).SetupWithManager(mgr); err != nil {
		log.Error(err, "unable to create controller", "controller", "Expose")
		os.Exit(1)
	}
	if err := SetupWebhook(mgr); err != nil {
		log.Error(err, "unable to create webhook", "webhook", "Deployment")
		os.Exit(1)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		log.Error(err, "unable to set up health check")
		os.Exit(1)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		log.Error(err, "unable to set up ready check")
		os.Exit(1)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Error(err, "problem running manager")
		os.Exit(1)
	}
}
