package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler/config"
	"github.com/kapok-dev/kapok/scheduler/extender"
	"github.com/kapok-dev/kapok/scheduler/framework"
	"github.com/kapok-dev/kapok/scheduler/place"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// DefaultName is the name of the scheduler of pods that do not name one.
const DefaultName = corev1.DefaultSchedulerName

// Options configure a scheduler.
type Options struct {
	// Name is the spec.schedulerName of the pods that it places. Default: DefaultName.
	Name string
	// Profile are the rules. Default: those of kube-scheduler without a configuration.
	Profile *place.Profile
	// Configuration configures the scheduler as a file of kube-scheduler does, instead of Name and
	// Profile. With several profiles, it is several schedulers, each with its own name and rules,
	// that share one queue. Package config reads it from a file, and says what is supported.
	Configuration *configv1.KubeSchedulerConfiguration
	// Plugins are plugins of the program, by their names. A configuration enables them as it does
	// those of kube-scheduler. Without one, all are enabled, in the order of their names, with the
	// weight 1.
	Plugins map[string]framework.Factory
	// Seed decides between nodes that are equally good. Default 0: the same choices in each run.
	Seed uint64
	// Manager are options of the manager that Run makes.
	Manager manager.Options
}

// Add adds the scheduler to a manager.
func (o Options) Add(m manager.Manager) error {
	s := &scheduler{
		client: m.GetClient(), live: m.GetAPIReader(), cache: m.GetCache(), events: map[string]manager.EventRecorder{}, log: m.GetLogger().WithName("scheduler"),
		cluster: place.NewCluster(o.Seed), inbox: newInbox(), bindings: make(chan struct{}, maxBindings),
	}
	c, err := o.compile(func(name string) framework.Handle { return &handle{s, m.GetEventRecorder(name)} })
	if err != nil {
		return err
	}
	for name := range c.Profiles {
		s.events[name] = m.GetEventRecorder(name)
	}
	s.profiles, s.plugins, s.extenders, s.queue = c.Profiles, c.Plugins, c.Extenders, queue{first: c.InitialBackoff, last: c.MaxBackoff}
	return m.Add(s)
}

// compile returns the rules, by the names of schedulers, and the backoff. Without handles, plugins
// of the program are not made.
func (o Options) compile(handles func(scheduler string) framework.Handle) (*config.Compiled, error) {
	own := config.Own{Factories: o.Plugins, Handle: handles}
	if o.Configuration == nil {
		profile := o.Profile
		if profile == nil {
			profile = place.DefaultProfile()
		}
		name := cmp.Or(o.Name, DefaultName)
		c := &config.Compiled{Profiles: map[string]*place.Profile{name: profile}, InitialBackoff: firstPause, MaxBackoff: lastPause}
		plugins, err := own.Enable(name)
		if err != nil {
			return nil, fmt.Errorf("scheduler: %w", err)
		}
		if plugins != nil {
			c.Plugins = map[string]*config.Plugins{name: plugins}
		}
		return c, nil
	}
	if o.Name != "" || o.Profile != nil {
		return nil, errors.New("scheduler: Configuration has the names and the profiles: Name and Profile must not be set")
	}
	c, err := config.CompileWith(o.Configuration, own)
	if err != nil {
		return nil, fmt.Errorf("scheduler: configuration: %w", err)
	}
	return c, nil
}

// scheduler is the Runnable. Its cluster, queue and assumed belong to the goroutine of Start.
type scheduler struct {
	profiles map[string]*place.Profile // by the names of schedulers
	client   client.Client
	live     client.Reader // not from the cache
	cache    cache.Cache
	events   map[string]manager.EventRecorder // by the names of schedulers
	log      logr.Logger
	inbox    *inbox

	plugins   map[string]*config.Plugins // of the program, by the names of schedulers
	extenders []*extender.Extender
	interests interests // of plugins and extenders
	waiting   waitingPods

	cluster *place.Cluster
	queue   queue
	assumed map[types.UID]bool // pods whose binding is under way

	bindings chan struct{} // has a value for each binding under way
	writers  sync.WaitGroup
}

// Start implements manager.Runnable.
func (s *scheduler) Start(ctx context.Context) error {
	defer s.closeExtenders()
	defer s.writers.Wait()
	s.assumed = map[types.UID]bool{}
	if len(s.plugins) == 0 && len(s.extenders) == 0 { // these may look at all pods
		s.cluster.LoadPods(func(key types.NamespacedName) *corev1.Pod {
			var p corev1.Pod
			if err := s.cache.Get(ctx, key, &p); err != nil {
				return nil // the pod is gone, or the scheduler stops
			}
			return &p
		})
	}
	stop, err := s.watch(ctx)
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	defer stop()
	for ctx.Err() == nil {
		for _, call := range s.inbox.take() {
			call()
		}
		now := time.Now()
		if next := s.queue.take(now); next != nil {
			s.try(ctx, next)
			continue
		}
		var alarm <-chan time.Time
		if at := s.queue.next(); !at.IsZero() {
			alarm = time.After(at.Sub(now))
		}
		select {
		case <-s.inbox.filled:
		case <-alarm:
		case <-ctx.Done():
		}
	}
	return nil
}

// try decides about a pod, and writes the decision.
func (s *scheduler) try(ctx context.Context, n *pending) {
	profile := s.profiles[n.pod.Spec.SchedulerName]
	if _, dynamic := profile.Dynamic(); dynamic && s.cluster.LacksClaims(n.pod) {
		s.queue.gate(n, []string{ofDevices}, time.Now())
		return
	}
	if by := s.heldBack(ctx, n.pod); by != "" {
		s.queue.gate(n, []string{by}, time.Now())
		return
	}
	a := s.attempt(ctx, n.pod)
	d := a.place(s.cluster, n.pod, profile)
	if d.Err != nil {
		s.report(ctx, n, corev1.PodReasonSchedulerError, d.Err.Error())
		s.queue.fail(n, nil, time.Now())
		return
	}
	if d.Node == "" {
		s.refuse(ctx, n, d, profile, a)
		return
	}
	if choices := s.cluster.Choices(n.pod, d.Node); len(choices) > 0 && profile.Has("VolumeBinding") {
		s.prepare(ctx, n, d.Node, choices)
		return
	}
	claims, err := s.claim(n.pod, d.Node, profile)
	if err != nil {
		s.report(ctx, n, corev1.PodReasonSchedulerError, err.Error())
		s.queue.fail(n, nil, time.Now())
		return
	}
	if s.cluster.Nominated(n.pod.UID) != d.Node {
		s.nominate(n.pod, "")
	}
	s.cluster.Assume(n.pod, d.Node)
	s.assumed[n.pod.UID] = true
	if a != nil {
		a.commit(n, d.Node, claims)
		return
	}
	s.bind(ctx, n, d.Node, claims)
}

// Validate returns an error for options that contradict each other, and for a configuration that is
// invalid or not supported.
func (o Options) Validate() error {
	_, err := o.compile(nil)
	return err
}

// UserAgent is that of kube-scheduler: managedFields show it as the manager of what the scheduler
// writes.
const UserAgent = "kube-scheduler"

// Run runs the scheduler against the server of cfg until ctx ends, and returns after it has
// stopped, or the error that ended it. Metrics are registered in a registry that may have them
// already; nil is one of its own. With elect, a Lease in kube-system decides which one of several
// such programs acts. Run is the method of kapok.Options.Controllers.
func (o Options) Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) error {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = UserAgent
	m := o.Manager
	if m.Metrics.Registry == nil && metrics != nil {
		m.Metrics.Registry = metrics
	}
	if m.Logger.GetSink() == nil {
		m.Logger = logr.FromSlogHandler(log.Handler())
	}
	if m.Cache.State == nil {
		m.Cache.State = local.Of(cfg)
	}
	m.Cache.UnsafeSharedEvents = true
	if elect {
		m = m.WithElection(UserAgent)
	}
	mgr, err := manager.New(cfg, m)
	if err != nil {
		return err
	}
	if err := o.Add(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
