// Package controllers runs Kubernetes' built-in controllers, which create the ReplicaSets of
// Deployments, the pods of ReplicaSets, and so on.
//
//	mgr, err := controllers.New(cfg, controllers.Options{})
//	...
//	err = mgr.Start(ctx)
//
// They act as those of kube-controller-manager 1.37, under the same names, and work with any
// Kubernetes API server. Each has a package below this one.
package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/controllers/attachdetach"
	"github.com/kapok-dev/kapok/controllers/bootstrapsigner"
	"github.com/kapok-dev/kapok/controllers/cronjob"
	"github.com/kapok-dev/kapok/controllers/csrapproving"
	"github.com/kapok-dev/kapok/controllers/csrcleaner"
	"github.com/kapok-dev/kapok/controllers/daemonset"
	"github.com/kapok-dev/kapok/controllers/deployment"
	"github.com/kapok-dev/kapok/controllers/devicetainteviction"
	"github.com/kapok-dev/kapok/controllers/disruption"
	"github.com/kapok-dev/kapok/controllers/endpoints"
	"github.com/kapok-dev/kapok/controllers/endpointslice"
	"github.com/kapok-dev/kapok/controllers/endpointslicemirroring"
	"github.com/kapok-dev/kapok/controllers/ephemeralvolume"
	"github.com/kapok-dev/kapok/controllers/job"
	"github.com/kapok-dev/kapok/controllers/legacytokencleaner"
	"github.com/kapok-dev/kapok/controllers/loadbalancer"
	"github.com/kapok-dev/kapok/controllers/localpath"
	"github.com/kapok-dev/kapok/controllers/nodeipam"
	"github.com/kapok-dev/kapok/controllers/nodelifecycle"
	"github.com/kapok-dev/kapok/controllers/nodettl"
	"github.com/kapok-dev/kapok/controllers/persistentvolume"
	"github.com/kapok-dev/kapok/controllers/podautoscaler"
	"github.com/kapok-dev/kapok/controllers/podgc"
	"github.com/kapok-dev/kapok/controllers/replicaset"
	"github.com/kapok-dev/kapok/controllers/resourceclaim"
	"github.com/kapok-dev/kapok/controllers/servicecidr"
	"github.com/kapok-dev/kapok/controllers/statefulset"
	"github.com/kapok-dev/kapok/controllers/storageversionmigrator"
	"github.com/kapok-dev/kapok/controllers/tainteviction"
	"github.com/kapok-dev/kapok/controllers/tokencleaner"
	"github.com/kapok-dev/kapok/controllers/trustbundle"
	"github.com/kapok-dev/kapok/controllers/ttlafterfinished"
	"github.com/kapok-dev/kapok/controllers/volumeexpand"
	"github.com/kapok-dev/kapok/controllers/volumeprotection"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/manager/shards"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// UserAgent is that of kube-controller-manager: managedFields show it as the manager of what
// controllers write.
const UserAgent = "kube-controller-manager"

// Options select the controllers, and configure the manager that runs them. The zero value runs all
// that are on by default.
type Options struct {
	// Names select controllers as the flag --controllers of kube-controller-manager does: "*" is
	// every controller that is on by default, "foo" turns one on, "-foo" turns it off. Of several
	// entries for a controller the first counts. Default: "*".
	Names []string
	// LoadBalancerPool are the ranges of the addresses of Services of type LoadBalancer. Default:
	// loadbalancer.DefaultPool.
	LoadBalancerPool []netip.Prefix
	// LocalPath are options of the provisioner of volumes that are directories of nodes.
	LocalPath localpath.Options
	// PodAutoscaler are options of the controller of HorizontalPodAutoscalers.
	PodAutoscaler podautoscaler.Options
	// Shard lets all programs that Run would elect one of act at the same time, each on its share of
	// the objects: see package manager/shards. Controllers that decide about all objects together act
	// in one of the programs.
	Shard bool
	// NodeLifecycle are options of node-lifecycle-controller.
	NodeLifecycle nodelifecycle.Options
	// NodeIPAM are options of node-ipam-controller. Without its ClusterCIDRs, that one does not run.
	NodeIPAM nodeipam.Options
	// Manager are options of the manager. Its Cache reads the state of a server in this process, if
	// the configuration is that of one: see cache.Options.State.
	Manager manager.Options
}

// Validate returns an error for an unknown name, an invalid range, and invalid options of a
// controller.
func (o Options) Validate() error {
	for _, p := range o.LoadBalancerPool {
		if !p.IsValid() {
			return fmt.Errorf("a range of the load balancer pool is invalid: %v", p)
		}
	}
	if err := o.NodeLifecycle.Validate(); err != nil {
		return err
	}
	if err := o.NodeIPAM.Validate(); err != nil {
		return err
	}
	if err := o.LocalPath.Validate(); err != nil {
		return err
	}
	if err := o.PodAutoscaler.Validate(); err != nil {
		return err
	}
	return check(o.Names)
}

// Run runs the selected controllers against the server of cfg until ctx ends, and returns after
// they have stopped, or the error that ended them. Metrics are registered in a registry that may
// have them already; nil is one of their own. With elect, a Lease in kube-system decides which one
// of several such programs acts. Run is the method of kapok.Options.Controllers.
func (o Options) Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) error {
	if metrics != nil && o.Manager.Metrics.Registry == nil {
		o.Manager.Metrics.Registry = metrics
	}
	if o.Manager.Logger.GetSink() == nil {
		o.Manager.Logger = logr.FromSlogHandler(log.Handler())
	}
	if elect && o.Shard {
		return o.share(ctx, cfg)
	}
	if elect {
		o.Manager = o.Manager.WithElection(UserAgent)
	}
	m, err := New(cfg, o)
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// share runs the controllers for the share of the keys that this program has.
func (o Options) share(ctx context.Context, cfg *rest.Config) error {
	elected := o.Manager.WithElection(UserAgent)
	member := shards.Options{
		Name: elected.LeaderElectionID + "-shard", Namespace: elected.LeaderElectionNamespace,
		LeaseDuration: *elected.LeaseDuration, RenewDeadline: *elected.RenewDeadline, RetryPeriod: *elected.RetryPeriod,
		Logger: o.Manager.Logger,
	}
	o.Manager.GracefulShutdownTimeout = new(time.Duration(-1)) // a share ends when its last request has ended
	state := local.Of(cfg)
	return shards.Run(ctx, cfg, member, func(ctx context.Context, cfg *rest.Config, owns shards.Owns) error {
		o := o
		if o.Manager.Cache.State == nil {
			o.Manager.Cache.State = state // the cache only reads
		}
		o.Manager.Controller.Owns = func(controller string, request any) bool {
			if slices.Contains(whole, controller) {
				return owns(controller)
			}
			return owns(fmt.Sprint(controller, " ", request))
		}
		m, err := New(cfg, o)
		if err != nil {
			return err
		}
		return m.Start(ctx)
	})
}

// New returns a manager that runs the selected controllers against the server of cfg. cfg is
// copied. New returns an error for an unknown name.
func New(cfg *rest.Config, opts Options) (manager.Manager, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = UserAgent
	cfg.WarningHandler = rest.NoWarnings{} // that a version is deprecated, as that of Endpoints
	o := opts.Manager
	if o.Cache.State == nil {
		o.Cache.State = local.Of(cfg)
	}
	o.Cache.UnsafeSharedEvents = true
	o.Logger = quiet(o.Logger)
	m, err := manager.New(cfg, o)
	if err != nil {
		return nil, err
	}
	return m, opts.add(m)
}

// Add adds the selected controllers to a manager: see Options.Names.
func Add(m manager.Manager, names ...string) error { return Options{Names: names}.add(m) }

func (o Options) add(m manager.Manager) error {
	if err := o.Validate(); err != nil {
		return err
	}
	for _, c := range all {
		if !c.selected(o.Names) {
			continue
		}
		add := c.add
		switch c.name {
		case localPath:
			add = o.LocalPath.Add
		case nodeIPAM:
			add = o.NodeIPAM.Add
		case nodeLifecycle:
			add = o.NodeLifecycle.Add
		case serviceLB:
			add = loadbalancer.Options{Pool: o.LoadBalancerPool}.Add
		case podAutoscaler:
			add = o.PodAutoscaler.Add
		}
		if err := add(m); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// Names returns the names of all controllers, sorted.
func Names() (names []string) {
	for _, c := range all {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return names
}

// entry is a controller. alias is its name before Kubernetes 1.28, which works as well.
type entry struct {
	name, alias string
	add         func(manager.Manager) error
}

// The names of the controllers with options of their own.
const (
	localPath     = "local-path-provisioner-controller"
	podAutoscaler = "horizontal-pod-autoscaler-controller"
	nodeIPAM      = "node-ipam-controller"
	nodeLifecycle = "node-lifecycle-controller"
	serviceLB     = "service-lb-controller"
)

// These controllers remember something that is needed for other objects: of volumes for the status
// of nodes, of pods for that of rules.
const (
	attachDetach = "persistentvolume-attach-detach-controller"
	deviceTaints = "device-taint-eviction-controller"
	// binder chooses the volume for a claim from all.
	binder = "persistentvolume-binder-controller"
)

var all = []entry{
	{bootstrapSigner, "bootstrapsigner", bootstrapsigner.Add},
	{"certificatesigningrequest-approving-controller", "csrapproving", csrapproving.Add},
	{"certificatesigningrequest-cleaner-controller", "csrcleaner", csrcleaner.Add},
	{"cronjob-controller", "cronjob", cronjob.Add},
	{"daemonset-controller", "daemonset", daemonset.Add},
	{"deployment-controller", "deployment", deployment.Add},
	{deviceTaints, "", devicetainteviction.Add},
	{"disruption-controller", "disruption", disruption.Add},
	{"endpoints-controller", "endpoint", endpoints.Add},
	{"endpointslice-controller", "endpointslice", endpointslice.Add},
	{"endpointslice-mirroring-controller", "endpointslicemirroring", endpointslicemirroring.Add},
	{"ephemeral-volume-controller", "ephemeral-volume", ephemeralvolume.Add},
	{podAutoscaler, "horizontalpodautoscaling", podautoscaler.Add},
	{"job-controller", "job", job.Add},
	{"kube-apiserver-serving-clustertrustbundle-publisher-controller", "", trustbundle.Add},
	{"legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner", legacytokencleaner.Add},
	{localPath, "local-path-provisioner", localpath.Add},
	{nodeIPAM, "nodeipam", nodeipam.Options{}.Add},
	{nodeLifecycle, "nodelifecycle", nodelifecycle.Add},
	{attachDetach, "attachdetach", attachdetach.Add},
	{binder, "persistentvolume-binder", persistentvolume.Add},
	{"persistentvolume-expander-controller", "persistentvolume-expander", volumeexpand.Add},
	{"persistentvolume-protection-controller", "pv-protection", volumeprotection.AddVolumes},
	{"persistentvolumeclaim-protection-controller", "pvc-protection", volumeprotection.AddClaims},
	{"pod-garbage-collector-controller", "podgc", podgc.Add},
	{"podcertificaterequest-cleaner-controller", "", csrcleaner.AddOfPods},
	{"replicaset-controller", "replicaset", replicaset.Add},
	{"replicationcontroller-controller", "replicationcontroller", replicaset.AddReplicationController},
	{"resourceclaim-controller", "resource-claim-controller", resourceclaim.Add},
	{"service-cidr-controller", "", servicecidr.Add},
	{serviceLB, "service", loadbalancer.Add},
	{"statefulset-controller", "statefulset", statefulset.Add},
	{"storage-version-migrator-controller", "svm", storageversionmigrator.Add},
	{"taint-eviction-controller", "taint-eviction-controller", tainteviction.Add},
	{tokenCleaner, "tokencleaner", tokencleaner.Add},
	{"ttl-after-finished-controller", "ttl-after-finished", ttlafterfinished.Add},
	{"ttl-controller", "ttl", nodettl.Add},
	{"volumeattributesclass-protection-controller", "", volumeprotection.AddAttributesClasses},
}

// whole are the controllers whose objects cannot be shared, because they decide about all of them
// together: one program runs all of such a controller (see Options.Shard).
var whole = []string{attachDetach, binder, deviceTaints, podAutoscaler, nodeIPAM, nodeLifecycle, serviceLB}

// These controllers are off by default, as in kube-controller-manager: only their names turn them
// on.
const (
	bootstrapSigner = "bootstrap-signer-controller"
	tokenCleaner    = "token-cleaner-controller"
)

var optional = []string{bootstrapSigner, tokenCleaner}

func (c entry) is(name string) bool { return name != "" && (name == c.name || name == c.alias) }

func (c entry) selected(names []string) bool {
	usual := !slices.Contains(optional, c.name)
	if len(names) == 0 {
		return usual
	}
	for _, n := range names {
		if c.is(n) {
			return true
		}
		if off, ok := strings.CutPrefix(n, "-"); ok && c.is(off) {
			return false
		}
	}
	return usual && slices.Contains(names, "*")
}
