// Cronjob is the CronJob of the kubebuilder tutorial: it creates Jobs at scheduled times. README.md
// is the tutorial.
//
//   - api/v1 has the types, from which manifests are generated;
//   - controller.go has the reconcile loop in its seven steps, on schedule.go (when) and jobs.go
//     (what);
//   - webhook.go has the defaults and the validation of a CronJob.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/ctrl"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/webhook"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

//go:generate go tool -modfile=../tools/go.mod controller-gen object crd:generateEmbeddedObjectMeta=true rbac:roleName=manager-role webhook paths=./... output:crd:dir=manifests/crd output:rbac:dir=manifests/rbac output:webhook:dir=manifests/webhook

// leaseName is the name of the Lease that the leader of several managers holds.
const leaseName = "80807133.tutorial.kubebuilder.io"

func main() {
	var options ctrl.Options
	var hooks webhook.Options
	flag.StringVar(&options.Metrics.BindAddress, "metrics-bind-address", ":8080", "where metrics are served; 0: nowhere")
	flag.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "where probes are answered; 0: nowhere")
	flag.BoolVar(&options.LeaderElection, "leader-elect", false, "act only while this is the leader of all managers that run")
	flag.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "", "where the lease is (default: the namespace of the pod)")
	flag.IntVar(&hooks.Port, "webhook-port", webhook.DefaultPort, "where webhooks are served, unless ENABLE_WEBHOOKS is false")
	flag.StringVar(&hooks.CertDir, "webhook-cert-dir", "",
		"the directory of their tls.crt and tls.key (default: k8s-webhook-server/serving-certs in that for temporary files)")
	hooksURL := flag.String("webhook-url", "",
		"how the API server reaches them if it is not by a service, as https://127.0.0.1:9443; the certificate is made then")
	verbose := flag.Bool("v", false, "log each look at a CronJob")
	ctrl.RegisterFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "cronjob: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}

	if *verbose {
		slog.SetLogLoggerLevel(slog.LevelDebug)
	}
	if err := run(ctrl.SetupSignalHandler(), options, hooks, *hooksURL); err != nil {
		fmt.Fprintln(os.Stderr, "cronjob:", err)
		os.Exit(1)
	}
}

// run runs CronJobs until ctx is done.
func run(ctx context.Context, options ctrl.Options, hooks webhook.Options, hooksURL string) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if os.Getenv("ENABLE_WEBHOOKS") != "false" {
		if hooksURL != "" {
			if hooks.Certificates, err = certificates(cfg, hooksURL); err != nil {
				return err
			}
		}
		options.WebhookServer = webhook.NewServer(hooks)
	}
	mgr, err := newManager(cfg, options, nil)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager with the controller of CronJobs, and with the webhooks if the
// options have a server for them. A nil clock is the real one.
func newManager(cfg *rest.Config, options ctrl.Options, clock Clock) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options.Scheme = scheme
	options.LeaderElectionID = leaseName
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, err
	}
	if err := (&CronJobReconciler{Client: mgr.GetClient(), Scheme: scheme, Clock: clock}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("controller of CronJobs: %w", err)
	}
	if options.WebhookServer != nil {
		if err := setupWebhooks(mgr); err != nil {
			return nil, fmt.Errorf("webhooks of CronJobs: %w", err)
		}
	}
	if err := mgr.AddHealthzCheck("healthz", ctrl.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("readyz", ctrl.Ping)
}

// newScheme returns a Scheme with the types of CronJob and of Kubernetes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, batchv1.AddToScheme(scheme)
}

// certificates returns the certificates for webhooks at a URL. Their configurations receive the URL
// and the CA bundle.
func certificates(cfg *rest.Config, hooksURL string) (*webhook.Certificates, error) {
	at, err := url.Parse(hooksURL)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" {
		return nil, fmt.Errorf("webhook-url %q: want https://HOST:PORT", hooksURL)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return nil, err
	}
	return webhook.SelfSigned(c, webhook.CertificateOptions{
		Hosts:                           []string{at.Hostname()},
		URL:                             hooksURL,
		MutatingWebhookConfigurations:   []string{"mutating-webhook-configuration"},
		ValidatingWebhookConfigurations: []string{"validating-webhook-configuration"},
	}), nil
}
