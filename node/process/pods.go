package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/heartbeat"
	"github.com/kapok-dev/kapok/node/internal/podip"
	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/node/internal/proxy"
	"github.com/kapok-dev/kapok/node/internal/recorder"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	podWorkers      = 8
	byNode          = "spec.nodeName"
	eventsPerSecond = 50
	// maxRounds bounds the containers that one call of Reconcile starts.
	maxRounds = 50
	// longestMessage is the maximum length of a termination message, in bytes.
	longestMessage = 4096
)

// pods is the Reconciler of the pods of the node.
type pods struct {
	options   Options
	runtime   *proc.Runtime
	images    *images
	addresses *podip.Addresses
	network   *network // nil if pods have that of this machine
	proxy     *proxy.Proxy
	client    client.Client
	live      atomic.Pointer[client.Reader] // what reads from the server, nil before the start
	events    *recorder.Recorder

	ctx    context.Context // of all goroutines
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	queue   handler.Queue
	keys    map[string]client.ObjectKey // by the UIDs of pods
	told    map[string]string           // the events that were recorded last, by pod
	stops   map[proc.ID]*stopping
	tended  map[proc.ID]*tender // containers that run
	tokens  map[tokenKey]token
	evicted map[string]string // why pods are evicted, by UID
	fresh   map[proc.ID]bool  // were started by this process, so that their hooks run

	started chan struct{} // has an element when a container has started, for metrics

	named func() bool // whether containers have an /etc/hosts of their own
}

func newPods(o Options) (*pods, error) {
	p := newPodsWithoutRuntime(o)
	var err error
	p.runtime, err = proc.Open(proc.Options{Dir: o.Dir, Tether: o.Tether, Changed: p.wake, Lost: func() { p.network.again() }})
	p.proxy = proxy.New(proxy.Network{Dial: p.dial})
	return p, err
}

func newPodsWithoutRuntime(o Options) *pods {
	p := &pods{
		options: o, addresses: podip.New(), keys: map[string]client.ObjectKey{}, told: map[string]string{},
		stops: map[proc.ID]*stopping{}, tended: map[proc.ID]*tender{}, fresh: map[proc.ID]bool{}, tokens: map[tokenKey]token{}, evicted: map[string]string{}, started: make(chan struct{}, 1),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.images = &images{
		dir: o.WorkDir, output: filepath.Join(o.Dir, "images"), mappings: o.Images, store: o.Store, changed: p.wake, pulls: map[pullKey]*pull{},
		secrets: p.pullSecrets, event: p.imageEvent,
	}
	return p
}

// close ends all containers and goroutines.
func (p *pods) close() {
	p.live.Store(nil)
	p.cancel()
	p.images.group.Wait()
	p.group.Wait()
	p.proxy.Close()
	if p.network != nil {
		p.network.close()
	}
	p.runtime.Close(p.options.StopGrace)
}

// dial connects with a pod of this node, or with an address of this machine or beyond.
func (p *pods) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return p.network.dial(ctx, network, address)
}

// add adds the node to a manager.
func (p *pods) add(m manager.Manager) error {
	p.client = m.GetClient()
	err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byNode, func(obj client.Object) []string {
		return []string{obj.(*corev1.Pod).Spec.NodeName}
	})
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	reader := m.GetAPIReader()
	p.live.Store(&reader)
	p.named = sync.OnceValue(func() bool { return p.hasNames(m.GetLogger()) })
	p.events = recorder.New(m.GetClient(), m.GetLogger(), eventsPerSecond)
	if err := m.Add(p.events); err != nil {
		return err
	}
	if err := m.Add(&creator{pods: p}); err != nil {
		return err
	}
	beats := heartbeat.Options{
		Name: "process-node", Runs: p.isOwn, Labels: labelsOf, Status: p.nodeStatus,
		Yields:        func() bool { return false },
		LeaseDuration: leaseDuration, StatusInterval: statusInterval,
	}
	if err := beats.Add(m); err != nil {
		return err
	}
	if err := p.addServices(m); err != nil {
		return err
	}
	if err := p.addMappings(m); err != nil {
		return err
	}
	if err := p.addMetrics(m); err != nil {
		return err
	}
	if err := m.Add(&evictor{pods: p}); err != nil {
		return err
	}
	if p.options.Store != nil {
		if err := m.Add(&collector{pods: p, log: m.GetLogger()}); err != nil {
			return err
		}
	}
	return controller.NewControllerManagedBy(m).Named("process-pods").
		WatchesRawSource(controller.SourceFunc(p.receive)).
		Watches(&corev1.Pod{}, p.podEvents()).
		Watches(&corev1.Node{}, p.nodeEvents()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: podWorkers,
			RateLimiter:             workqueue.ExponentialBackoff[controller.Request](10*time.Millisecond, time.Minute),
		}).
		Complete(p)
}

// receive lets wake add requests, and adds one that ends the containers of pods that do not exist
// any more.
func (p *pods) receive(_ context.Context, q handler.Queue) error {
	p.mu.Lock()
	p.queue = q
	p.mu.Unlock()
	q.Add(sweeping)
	return nil
}

// sweeping is the request for the containers whose pods do not exist. No pod has this name.
var sweeping = handler.Request{NamespacedName: types.NamespacedName{Name: "*"}}

// wake adds a request for a pod, by its UID.
func (p *pods) wake(pod string) {
	p.mu.Lock()
	q, request := p.queue, sweeping
	if key, ok := p.keys[pod]; ok {
		request = handler.Request{NamespacedName: key}
	}
	p.mu.Unlock()
	if q != nil {
		q.Add(request)
	}
}

// sweepAgain adds a request for a sweep if a pod was swept while it was reconciled: what has been
// started since then is swept, too.
func (p *pods) sweepAgain(pod string, key client.ObjectKey) {
	p.mu.Lock()
	_, known := p.keys[pod]
	p.keys[pod] = key
	q := p.queue
	p.mu.Unlock()
	if !known {
		q.Add(sweeping)
	}
}

func (p *pods) podEvents() handler.Funcs {
	changed := func(o client.Object, q handler.Queue) {
		if pod := o.(*corev1.Pod); pod.Spec.NodeName == p.options.Name {
			p.observe(pod) // of all pods that exist, before the first call of Reconcile gives an address to a new one
			q.Add(handler.RequestFor(pod))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				q.Add(sweeping)
			}
			changed(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) {
			if e.Object.(*corev1.Pod).Spec.NodeName == p.options.Name {
				q.Add(sweeping)
			}
		},
	}
}

// nodeEvents adds requests for all pods when the node is created.
func (p *pods) nodeEvents() handler.Funcs {
	return handler.Funcs{CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) {
		if !p.isOwn(e.Object.(*corev1.Node)) {
			return
		}
		all, err := p.list(ctx)
		if err != nil {
			return // the cache has ended
		}
		for i := range all {
			q.Add(handler.RequestFor(&all[i]))
		}
	}}
}

// list returns the pods of the node.
func (p *pods) list(ctx context.Context) ([]corev1.Pod, error) {
	var all corev1.PodList
	err := p.client.List(ctx, &all, client.MatchingFields{byNode: p.options.Name}, client.UnsafeDisableDeepCopy)
	return all.Items, err
}

// Reconcile implements controller.Reconciler.
func (p *pods) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	if req == sweeping {
		return p.sweep(ctx)
	}
	var pod corev1.Pod
	if err := p.client.Get(ctx, req.NamespacedName, &pod); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Spec.NodeName != p.options.Name {
		return controller.Result{}, nil
	}
	var n corev1.Node
	if err := p.client.Get(ctx, client.Key("", p.options.Name), &n); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if !p.isOwn(&n) {
		return controller.Result{}, nil
	}
	uid := string(pod.UID)
	p.mu.Lock()
	p.keys[uid] = req.NamespacedName
	p.mu.Unlock()

	out, err := p.advance(ctx, &pod, &n)
	p.sweepAgain(uid, req.NamespacedName)
	if err != nil {
		return controller.Result{}, err
	}
	if err := p.write(ctx, &pod, &out); err != nil {
		return controller.Result{}, err
	}
	if out.ended {
		p.release(pod.UID)
		p.images.forget(uid)
	}
	if !out.ended && len(pod.Spec.Volumes) > 0 {
		if due := time.Now().Add(refreshVolumes); out.next.IsZero() || due.Before(out.next) {
			out.next = due
		}
	}
	if out.next.IsZero() || out.gone {
		return controller.Result{}, nil
	}
	return controller.Result{RequeueAfter: max(time.Until(out.next), time.Millisecond)}, nil
}

// advance does what is to be done for a pod, and returns the outcome after that.
func (p *pods) advance(ctx context.Context, pod *corev1.Pod, n *corev1.Node) (outcome, error) {
	in := input{pod: pod, hostIP: nodeIP, podIP: p.addressOf(pod), message: p.terminationMessage, health: p.healthOf}
	env := &environment{ctx: ctx, reader: p.client, pod: pod, node: n, podIP: in.podIP, hostIP: nodeIP, server: p.serverOf(ctx, pod)}
	in.pull = func(container string) *pull { return p.images.get(string(pod.UID), container) }
	var failed error
	in.config = func(c *corev1.Container) error {
		_, err := p.spec(env, c)
		if err != nil && !errors.As(err, &missing{}) {
			failed = err
		}
		return err
	}
	p.mu.Lock()
	in.evicted = p.evicted[string(pod.UID)]
	p.mu.Unlock()
	in.volumes = p.volumes(ctx, env)
	for range maxRounds {
		in.now, in.runs = time.Now(), p.runtime.Runs(string(pod.UID))
		p.evict(pod, in.runs, in.podIP)
		p.tend(pod, in.runs, in.podIP)
		out := decide(in)
		if failed != nil {
			return out, failed
		}
		again := false
		for i := range out.steps {
			done, err := p.take(ctx, pod, env, &out.steps[i])
			if err != nil {
				return out, err
			}
			again = again || done
		}
		if !again {
			return out, nil
		}
	}
	return outcome{}, fmt.Errorf("more than %d starts of containers at a time", maxRounds)
}

// take takes a step, and reports whether it has changed what runs.
func (p *pods) take(ctx context.Context, pod *corev1.Pod, env *environment, s *step) (changed bool, err error) {
	switch s.do {
	case prepare:
		p.images.prepare(p.ctx, pod, s.container)
	case stop:
		if p.stop(pod, s) {
			for _, e := range s.events {
				p.events.Record(pod, e)
			}
		}
	case start:
		return true, p.start(ctx, pod, env, s)
	}
	return false, nil
}

// start starts a container.
func (p *pods) start(ctx context.Context, pod *corev1.Pod, env *environment, s *step) error {
	spec, err := p.spec(env, s.container)
	if err != nil {
		return err
	}
	spec.ID.Attempt, spec.Backoff = s.attempt, s.backoff
	if spec.Image == "" {
		spec.Path = s.path
	}
	if spec.Args[0] == "" {
		spec.Args[0] = s.path
	}
	if spec.Hosts, err = p.hosts(env); err != nil {
		return err
	}
	if p.ownNetwork(pod) && spec.Root != nil {
		if spec.Address, err = netip.ParseAddr(env.podIP); err != nil {
			return fmt.Errorf("the address of the pod: %w", err)
		}
	}
	if spec.Root == nil {
		spec.Env = append(spec.Env, messageVariable+"="+p.path(p.messageFile(spec.ID)))
	} else if err := p.lastMounts(&spec, s.container); err != nil {
		return err
	}
	p.mu.Lock()
	p.fresh[spec.ID] = true
	p.mu.Unlock()
	run, err := p.runtime.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("start container %s: %w", s.container.Name, err)
	}
	select {
	case p.started <- struct{}{}:
	default:
	}
	p.images.used(string(pod.UID), s.container.Name)
	path := fieldPath(pod, s.container.Name)
	if run.Exit != nil && run.Exit.Reason == proc.StartError {
		p.events.Record(pod, recorder.Event{Type: corev1.EventTypeWarning, Reason: "Failed", Message: "Error: " + run.Exit.Message, FieldPath: path})
		return nil
	}
	p.events.Record(pod, recorder.Event{Type: corev1.EventTypeNormal, Reason: "Started", Message: "Container started", FieldPath: path})
	return nil
}

func fieldPath(pod *corev1.Pod, container string) string {
	list := "containers"
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			list = "initContainers"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			list = "ephemeralContainers"
		}
	}
	return fmt.Sprintf("spec.%s{%s}", list, container)
}

// spec returns what a container runs, without the path of its program unless that is in an OCI
// image.
func (p *pods) spec(env *environment, c *corev1.Container) (proc.Spec, error) {
	variables, value, err := env.of(c)
	if err != nil {
		return proc.Spec{}, err
	}
	if c, err = withSubPaths(c, value); err != nil {
		return proc.Spec{}, err
	}
	s := proc.Spec{
		ID: proc.ID{Pod: string(env.pod.UID), Container: c.Name}, Env: variables, Dir: c.WorkingDir,
		Terminal: c.TTY, Stdin: c.Stdin, StdinOnce: c.StdinOnce, Limits: limitsOf(c),
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		return proc.Spec{}, missing{fmt.Sprintf("workingDir %q is not an absolute path", c.WorkingDir)}
	}
	expanded := func(word string) string { return expand(word, value) }
	pulled := p.images.get(string(env.pod.UID), c.Name)
	if pulled == nil {
		pulled = &pull{}
	}
	if pulled.image == nil {
		// The program is the file: the first word of a command is only its name.
		words := append([]string(nil), c.Command...)
		if len(words) == 0 {
			words = []string{""}
		}
		for _, word := range append(words, c.Args...) {
			s.Args = append(s.Args, expanded(word))
		}
	}
	if p.options.Isolate {
		err = p.isolate(&s, env, c, pulled.image, pulled.path, expanded)
	} else {
		err = p.share(&s, env, c, pulled.image, value, expanded)
	}
	if err != nil {
		return proc.Spec{}, err
	}
	for _, word := range append([]string{s.Dir}, s.Args...) {
		if strings.Contains(word, "\x00") {
			return proc.Spec{}, missing{"command, args and workingDir must not contain a zero byte"}
		}
	}
	return s, nil
}

// share sets what a container runs that sees the files of the machine.
func (p *pods) share(s *proc.Spec, env *environment, c *corev1.Container, image *Image, value func(string) (string, bool), expand func(string) string) error {
	if err := unsupported(env.pod, c); err != nil {
		return err
	}
	root, err := p.root(env, c)
	if err != nil {
		return err
	}
	s.Env = append(s.Env, "KAPOK_ROOT="+p.path(root))
	if _, set := value("KUBECONFIG"); !set {
		file, err := p.kubeconfig(env, c, root)
		if err != nil {
			return err
		}
		if file != "" {
			s.Env = append(s.Env, "KUBECONFIG="+file)
		}
	}
	if image != nil {
		return image.fill(s, c, expand)
	}
	if s.Dir == "" {
		s.Dir = p.options.WorkDir
	}
	return nil
}

// observe notes the address that a pod has.
func (p *pods) observe(pod *corev1.Pod) {
	if podstatus.Ended(pod.Status.Phase) || p.inPods(pod.Status.PodIP) {
		p.addresses.Observe(pod)
	}
}

// addressOf returns the address of a pod.
func (p *pods) addressOf(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork, runtime.GOOS != "linux": // elsewhere, loopback is one address
		return nodeIP
	case podstatus.Ended(pod.Status.Phase):
		return pod.Status.PodIP
	}
	if all := p.addresses.Of(pod.UID, []string{p.podRange().String()}); len(all) > 0 {
		return all[0]
	}
	return ""
}

// write writes the outcome of a decision: events, the status, and the deletion, in this order.
func (p *pods) write(ctx context.Context, pod *corev1.Pod, out *outcome) error {
	key := client.ObjectKeyFromObject(pod)
	patch, err := podstatus.Patch(pod, &out.status)
	if err != nil {
		return err
	}
	if patch != nil {
		err := p.client.Status().Patch(ctx, partial(key), client.RawPatch(types.StrategicMergePatchType, patch))
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	var text strings.Builder
	for _, e := range out.events {
		text.WriteString(e.Reason + " " + e.Message + "\n")
	}
	p.mu.Lock()
	known := p.told[string(pod.UID)] == text.String()
	p.told[string(pod.UID)] = text.String()
	p.mu.Unlock()
	for _, e := range out.events {
		if !known {
			p.events.Record(pod, e)
		}
	}
	if kept := pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0; !out.gone || kept {
		return nil // kept by finalizers
	}
	err = p.client.Delete(ctx, partial(key), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if apierrors.IsConflict(err) {
		return nil // it is another pod
	}
	return client.IgnoreNotFound(err)
}

// partial returns an object for the response of a write of which only the metadata is needed.
func partial(key client.ObjectKey) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
	}
}

// sweep kills the containers of pods that do not exist, or that are on another node, and removes
// their files. It considers the pods that are known before it lists those that exist: another
// worker may begin with a new pod at any time, and the list does not have it.
func (p *pods) sweep(ctx context.Context) (controller.Result, error) {
	gone := p.known()
	all, err := p.list(ctx)
	if err != nil {
		return controller.Result{}, err
	}
	for i := range all {
		delete(gone, string(all[i].UID))
	}
	var failed []error
	for uid := range gone {
		running := false
		for _, run := range p.runtime.Runs(uid) {
			if run.Exit == nil {
				running = true
				_ = p.runtime.Kill(run.ID) // if it has ended, wake is called
			}
		}
		if !running {
			failed = append(failed, p.runtime.Remove(uid))
		}
	}
	p.forget(gone)
	for uid := range gone {
		p.release(types.UID(uid))
		p.images.forget(uid)
	}
	return controller.Result{}, errors.Join(failed...)
}

// known returns the UIDs of all pods of which something is known.
func (p *pods) known() map[string]bool {
	all := map[string]bool{}
	for _, uid := range p.runtime.Pods() {
		all[uid] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range p.keys {
		all[uid] = true
	}
	for uid := range p.evicted {
		all[uid] = true
	}
	for id := range p.tended {
		all[id.Pod] = true
	}
	for id := range p.stops {
		all[id.Pod] = true
	}
	for key := range p.tokens {
		all[key.pod] = true
	}
	for id := range p.fresh {
		all[id.Pod] = true
	}
	return all
}

// forget removes what is known about pods that do not exist, and ends what belongs to them.
func (p *pods) forget(gone map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range gone {
		delete(p.keys, uid)
		delete(p.told, uid)
		delete(p.evicted, uid)
	}
	for id, t := range p.tended {
		if gone[id.Pod] {
			t.cancel()
			delete(p.tended, id)
		}
	}
	for id, s := range p.stops {
		if gone[id.Pod] {
			close(s.done)
			delete(p.stops, id)
		}
	}
	for key := range p.tokens {
		if gone[key.pod] {
			delete(p.tokens, key)
		}
	}
	for id := range p.fresh {
		if gone[id.Pod] {
			delete(p.fresh, id)
		}
	}
}
