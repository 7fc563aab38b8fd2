package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/controllers/loadbalancer"
	"github.com/kapok-dev/kapok/controllers/localpath"
	"github.com/kapok-dev/kapok/controllers/podautoscaler"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controllersFlags adds the flags that select and configure controllers.
func controllersFlags(f *pflag.FlagSet, o *controllers.Options, names []string, usage string) {
	f.StringSliceVar(&o.Names, "controllers", names, usage+". Names, -NAME to leave one out, or *, which is all but the bootstrap-signer and the token-cleaner of: "+strings.Join(controllers.Names(), ", "))
	f.BoolVar(&o.Shard, "shard-controllers", false, "let all replicas run the controllers, each for a share of the objects, instead of electing a leader")
	f.Var((*ranges)(&o.LoadBalancerPool), "load-balancer-pool", "ranges of the addresses of services of type LoadBalancer (default "+(*ranges)(new(loadbalancer.DefaultPool())).String()+")")
	a, usual := &o.PodAutoscaler, podautoscaler.Options{}.Complete()
	f.DurationVar(&a.SyncPeriod, "horizontal-pod-autoscaler-sync-period", usual.SyncPeriod, "interval between two evaluations of a HorizontalPodAutoscaler")
	f.DurationVar(&a.DownscaleStabilization, "horizontal-pod-autoscaler-downscale-stabilization", usual.DownscaleStabilization, "time before scaling down: the highest recommendation of this time applies, unless the HorizontalPodAutoscaler sets its own")
	f.Float64Var(&a.Tolerance, "horizontal-pod-autoscaler-tolerance", usual.Tolerance, "smallest relative difference of a metric from its target that changes the number of replicas")
	f.DurationVar(&a.CPUInitializationPeriod, "horizontal-pod-autoscaler-cpu-initialization-period", usual.CPUInitializationPeriod, "time after the start of a pod during which a CPU sample counts only if the pod was ready during the whole window of the sample")
	f.DurationVar(&a.InitialReadinessDelay, "horizontal-pod-autoscaler-initial-readiness-delay", usual.InitialReadinessDelay, "time after its start during which a pod that has never been ready counts as still starting")
	f.IntVar(&a.ConcurrentSyncs, "concurrent-horizontal-pod-autoscaler-syncs", usual.ConcurrentSyncs, "number of HorizontalPodAutoscalers that are evaluated concurrently")
	f.StringVar(&o.LocalPath.Dir, "local-path-dir", localpath.DefaultDir, "directory on nodes for the volumes that kapok.dev/local-path provisions")
	f.BoolVar(&o.LocalPath.Default, "local-path-default-class", false, "create the StorageClass "+localpath.ClassName+" as a default class")
	f.DurationVar(&o.NodeLifecycle.NodeMonitorGracePeriod, "node-monitor-grace-period", 0, "time without a heartbeat after which a node is marked unhealthy (default 50s)")
	f.Var((*ranges)(&o.NodeIPAM.ClusterCIDRs), "cluster-cidr", "CIDRs from which each node gets the CIDRs of its pods, at most one per IP family (default none)")
	f.IntVar(&o.NodeIPAM.NodeCIDRMaskSizeIPv4, "node-cidr-mask-size-ipv4", 0, "mask size of the IPv4 ranges of nodes (default 24)")
	f.IntVar(&o.NodeIPAM.NodeCIDRMaskSizeIPv6, "node-cidr-mask-size-ipv6", 0, "mask size of the IPv6 ranges of nodes (default 64)")
}

// ranges are the value of a flag for ranges of addresses.
type ranges []netip.Prefix

// String, Set and Type implement pflag.Value.
func (r *ranges) String() string {
	var all []string
	for _, p := range *r {
		all = append(all, p.String())
	}
	return strings.Join(all, ",")
}
func (r *ranges) Type() string { return "ranges" }
func (r *ranges) Set(text string) error {
	var all []netip.Prefix
	for one := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			return errors.New("want ranges of addresses, like 192.0.2.0/24,2001:db8::/120")
		}
		all = append(all, p)
	}
	*r = all
	return nil
}

// chores is the value of the flag --controllers of kapok kube-apiserver, which Kubernetes'
// kube-apiserver does not have: true enables the background work of the server, such as garbage
// collection, and a list also runs controllers.
type chores kapok.Options

// String, Set and Type implement pflag.Value.
func (c *chores) String() string { return strconv.FormatBool(!c.KeepGarbage) }
func (c *chores) Type() string   { return "string" }
func (c *chores) Set(text string) error {
	c.Controllers = nil
	if on, err := strconv.ParseBool(text); err == nil {
		c.KeepGarbage = !on
		return nil
	}
	o := controllers.Options{Names: strings.Split(text, ",")}
	if err := o.Validate(); err != nil {
		return fmt.Errorf("want true, false or a list: %w", err)
	}
	c.KeepGarbage, c.Controllers = false, o
	return nil
}

// acting is the command line of kapok controllers.
type acting struct {
	kubeconfig string
	context    string
	options    controllers.Options
	elect      bool
	lease      time.Duration
	deadline   time.Duration
	retry      time.Duration
	logLevel   logLevel
	verbose    bool
}

func newControllers() *cobra.Command {
	a := &acting{logLevel: logLevel(slog.LevelWarn)}
	c := &cobra.Command{
		Use:   "controllers",
		Short: "Run Kubernetes' controllers against a server",
		Long: `Run Kubernetes' controllers against a server until they are interrupted, for
example the one that creates the pods of a Deployment.

They work with any Kubernetes API server that has no kube-controller-manager.
kapok up --controllers runs them in the server itself.`,
		Example: `  kapok controllers --kubeconfig ./kubeconfig
  kapok controllers --controllers='*,-cronjob' --leader-elect=false`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.check(c); err != nil {
				return err
			}
			return failed(a.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	f, m := c.Flags(), &a.options.Manager
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig of the server (default $KUBECONFIG)")
	f.StringVar(&a.context, "context", "", "context of the kubeconfig (default its current one)")
	controllersFlags(f, &a.options, []string{"*"}, "controllers to run")
	f.Var((*ranges)(&a.options.NodeIPAM.ServiceCIDRs), "service-cluster-ip-range", "ranges of services, which are excluded from --cluster-cidr (default none)")
	f.BoolVar(&a.elect, "leader-elect", true, "run the controllers only while this process holds the Lease, so that one of several processes runs them")
	f.StringVar(&m.LeaderElectionNamespace, "leader-elect-resource-namespace", metav1.NamespaceSystem, "namespace of the Lease")
	f.StringVar(&m.LeaderElectionID, "leader-elect-resource-name", controllers.UserAgent, "name of the Lease")
	f.DurationVar(&a.lease, "leader-elect-lease-duration", 15*time.Second, "time after which another process takes over from one that does not renew the Lease")
	f.DurationVar(&a.deadline, "leader-elect-renew-deadline", 10*time.Second, "time after which a process that cannot renew the Lease stops")
	f.DurationVar(&a.retry, "leader-elect-retry-period", 2*time.Second, "time between two attempts to acquire or renew the Lease")
	f.StringVar(&m.Metrics.BindAddress, "metrics-bind-address", "0", "address of /metrics, HOST:PORT; 0 disables it")
	f.StringVar(&m.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz, HOST:PORT; 0 disables it")
	f.Var(&a.logLevel, "log-level", "lowest level that is logged: debug, info, warn, error")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "same as --log-level=info")
	exclude(c, "log-level", "verbose")
	return c
}

// check rejects invalid flags.
func (a *acting) check(c *cobra.Command) error {
	for _, name := range []string{"kubeconfig", "context", "leader-elect-resource-namespace", "leader-elect-resource-name"} {
		if f := c.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	if len(a.options.Names) == 0 {
		return errors.New("--controllers selects no controller")
	}
	if err := a.options.PodAutoscaler.Validate(); err != nil {
		return fmt.Errorf("--horizontal-pod-autoscaler-...: %w", err)
	}
	if err := a.options.Validate(); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if a.options.Shard && !a.elect {
		return errors.New("--shard-controllers has no effect without --leader-elect")
	}
	if a.options.Shard && a.deadline <= 2*a.retry {
		return errors.New("--shard-controllers: want --leader-elect-renew-deadline > 2 * --leader-elect-retry-period")
	}
	if a.elect && (a.lease <= a.deadline || a.deadline <= a.retry || a.retry <= 0) {
		return errors.New("want --leader-elect-lease-duration > --leader-elect-renew-deadline > --leader-elect-retry-period > 0")
	}
	return nil
}

func (a *acting) run(ctx context.Context, stdout, stderr io.Writer) error {
	cfg, err := configOf(a.kubeconfig, a.context)
	if err != nil {
		return err
	}
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore)
	level := slog.Level(a.logLevel)
	if a.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	m := &a.options.Manager
	m.Logger = logr.FromSlogHandler(log.Handler())
	m.LeaseDuration, m.RenewDeadline, m.RetryPeriod = &a.lease, &a.deadline, &a.retry
	fmt.Fprintf(stdout, "Controllers run against %s.\n", cfg.Host)
	return a.options.Run(ctx, cfg, log, nil, a.elect)
}
