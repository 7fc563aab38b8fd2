package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// kinds are those whose changes make a scenario busy, and whose history can be printed.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "ReplicationController"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "Endpoints"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "ResourceQuota"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"},
}

// shared are kinds without a namespace. Scenarios share their objects: see scenario.owns.
var shared = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Node"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"},
	{Group: "certificates.k8s.io", Version: "v1", Kind: "ClusterTrustBundle"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "IPAddress"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "ServiceCIDR"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "storagemigration.k8s.io", Version: "v1", Kind: "StorageVersionMigration"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "CSIDriver"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttributesClass"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceTaintRule"},
}

// A scenario is one that is being played. It owns the goroutines of its watches, which close ends.
type scenario struct {
	name, ns string
	world    World
	client   client.WithWatch
	stop     context.CancelFunc
	watches  sync.WaitGroup
	nodes    []string // that it has created

	mu       sync.Mutex
	changes  []change        // since history was printed last
	changed  int             // number of all changes
	prefixes map[string]bool // generateNames of objects, and of pods that their controllers create
	crons    map[string]bool // names of CronJobs
	minutes  minutes
	seen     int // changed when busy was called last
}

// A change is an event of a watch.
type change struct {
	event watch.EventType
	obj   *unstructured.Unstructured
}

// begin creates the namespace of a scenario, and watches it.
func begin(ctx context.Context, w World, c client.WithWatch, name, ns string) (*scenario, error) {
	ctx, stop := context.WithCancel(ctx)
	s := &scenario{name: name, ns: ns, world: w, client: c, stop: stop, prefixes: map[string]bool{}, crons: map[string]bool{}}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		stop()
		return nil, err
	}
	for _, gvk := range slices.Concat(kinds, shared) {
		var in []client.ListOption
		switch {
		case gvk.Kind == "Node": // changes with the clock
			continue
		case !slices.Contains(shared, gvk):
			in = append(in, client.InNamespace(ns))
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		w, err := c.Watch(ctx, list, in...)
		if err != nil {
			s.close(ctx)
			return nil, err
		}
		s.watches.Go(func() {
			defer w.Stop()
			for event := range w.ResultChan() {
				if obj, ok := event.Object.(*unstructured.Unstructured); ok && s.owns(obj) {
					s.note(change{event.Type, obj})
				}
			}
		})
	}
	// A controller, or the server, creates the account that pods need.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}
	for tries := 0; ; tries++ {
		err := c.Get(ctx, client.ObjectKeyFromObject(account), account)
		if err == nil {
			break
		}
		if tries == 300 {
			s.close(ctx)
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return s, nil
}

// owns reports whether an object is one of the scenario. The name of one without a namespace begins
// with that of the scenario, also after a colon, or its group has that; an address is that of a
// Service, and a VolumeAttachment that of its node.
func (s *scenario) owns(o *unstructured.Unstructured) bool {
	name := o.GetName()
	of, _, _ := unstructured.NestedString(o.Object, "spec", "parentRef", "namespace")
	return s.attached(o) || s.ns == o.GetNamespace() || s.ns == of || strings.HasPrefix(name, s.ns+"-") ||
		strings.Contains(name, ":"+s.ns+"-") || strings.Contains(name, "."+s.ns+".")
}

func (s *scenario) close(ctx context.Context) {
	if s != nil {
		s.deleteNodes(ctx)
		s.stop()
		s.watches.Wait()
	}
}

// note records a change, and how generated names begin.
func (s *scenario) note(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed++
	s.changes = append(s.changes, c)
	if c.obj.GetKind() == "CronJob" {
		s.crons[c.obj.GetName()] = true
	}
	if c.obj.GetKind() == "ReplicaSet" {
		s.prefixes[c.obj.GetName()+"-"] = true // names of its pods, also if all are refused
	}
	if prefix := c.obj.GetGenerateName(); prefix != "" {
		s.prefixes[prefix[:min(len(prefix), 58)]] = true // the server cuts longer ones
	}
}

// busy reports whether an object has changed since it was called last.
func (s *scenario) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.seen
	s.seen = s.changed
	return s.seen != was
}

// step takes a step of the script.
func (s *scenario) step(ctx context.Context, d *datadriven.TestData) (string, error) {
	input, err := s.expand(ctx, d.Input)
	if err != nil {
		return "", err
	}
	if d.CmdArgs, err = s.arguments(ctx, d.CmdArgs); err != nil {
		return "", err
	}
	switch d.Cmd {
	case "create":
		return "", s.create(ctx, d, input)
	case "patch":
		return "", s.patch(ctx, d, input)
	case "delete":
		return "", s.delete(ctx, d)
	case "settle":
		return "", s.settle(ctx)
	case "wait":
		return "", s.wait(ctx, d)
	case "pods":
		_, err := s.pods(ctx, d)
		return "", err
	case "play":
		return "", s.play(ctx)
	case "metrics":
		return "", s.world.Metrics.set(ctx, s.client, s.ns, input)
	case "nodes":
		return "", s.createNodes(ctx, d)
	case "beat":
		return "", s.beat(ctx, d)
	case "show":
		return s.show(ctx, d)
	case "names":
		return s.names(ctx, d)
	case "events":
		return s.events(ctx, d)
	case "history":
		return s.history(d)
	}
	return "", fmt.Errorf("there is no command %q", d.Cmd)
}

// arguments returns arguments as inputs: see expand.
func (s *scenario) arguments(ctx context.Context, args []datadriven.CmdArg) (next []datadriven.CmdArg, err error) {
	for _, a := range args {
		if a.Key, err = s.expand(ctx, a.Key); err != nil {
			return nil, err
		}
		a.Vals = slices.Clone(a.Vals)
		for i := range a.Vals {
			if a.Vals[i], err = s.expand(ctx, a.Vals[i]); err != nil {
				return nil, err
			}
		}
		next = append(next, a)
	}
	return next, nil
}

func (s *scenario) settle(ctx context.Context) error { return s.world.Settle(ctx, s.busy) }

// wait lets time pass. Of the nodes of the argument beat, the Lease is renewed every two seconds.
func (s *scenario) wait(ctx context.Context, d *datadriven.TestData) error {
	if len(d.CmdArgs) == 0 {
		return fmt.Errorf("wait needs a duration, or a second such as :05")
	}
	if second := d.CmdArgs[0].Key; strings.HasPrefix(second, ":") {
		return s.align(second)
	}
	pause, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return err
	}
	var alive []string
	for _, a := range d.CmdArgs[1:] {
		if a.Key != "beat" {
			return fmt.Errorf("wait has no argument %q", a.Key)
		}
		alive = append(alive, a.Vals...)
	}
	for end := time.Now().Add(pause); ; {
		for _, name := range alive {
			if err := s.renew(ctx, s.ns+"-"+name); err != nil {
				return err
			}
		}
		left := time.Until(end)
		if len(alive) == 0 || left <= beatEvery {
			time.Sleep(left)
			return nil
		}
		time.Sleep(beatEvery)
	}
}

// create creates the objects of a YAML stream, as another user with as=.
func (s *scenario) create(ctx context.Context, d *datadriven.TestData, input string) error {
	var c client.Client = s.client
	if user := value(d, "as"); user != "" {
		config := rest.CopyConfig(s.world.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		if group := value(d, "group"); group != "" {
			config.Impersonate.Groups = []string{group}
		}
		var err error
		if c, err = client.New(config, client.Options{}); err != nil {
			return err
		}
	}
	for document := range strings.SplitSeq(input, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &obj.Object); err != nil {
			return err
		}
		if namespaced, err := s.client.IsObjectNamespaced(obj); err != nil {
			return err
		} else if namespaced {
			obj.SetNamespace(s.ns)
		}
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// objects returns empty objects of KIND/NAME, the first argument of a step. The name all stands for
// the names of all objects of the kind.
func (s *scenario) objects(ctx context.Context, d *datadriven.TestData) (all []*unstructured.Unstructured, err error) {
	one, err := s.object(ctx, d)
	if err != nil || one.GetName() != "all" {
		return []*unstructured.Unstructured{one}, err
	}
	items, err := s.list(ctx, one.GetKind())
	for i := range items {
		o := one.DeepCopy()
		o.SetName(items[i].GetName())
		all = append(all, o)
	}
	return all, err
}

func (s *scenario) object(ctx context.Context, d *datadriven.TestData) (*unstructured.Unstructured, error) {
	if len(d.CmdArgs) == 0 {
		return nil, fmt.Errorf("%s needs KIND/NAME", d.Cmd)
	}
	obj, err := s.named(d.CmdArgs[0].Key)
	if err == nil && obj.GetKind() == "VolumeAttachment" && strings.Contains(obj.GetName(), ":") {
		name, err := s.attachment(ctx, obj.GetName())
		obj.SetName(name)
		return obj, err
	}
	return obj, err
}

// named returns an empty object of KIND/NAME.
func (s *scenario) named(text string) (*unstructured.Unstructured, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok {
		return nil, fmt.Errorf("%q is not KIND/NAME", text)
	}
	gvk, err := kindOf(kind)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	obj.SetName(name)
	if !slices.Contains(shared, gvk) {
		obj.SetNamespace(s.ns)
	}
	return obj, nil
}

// uid returns the uid of KIND/NAME.
func (s *scenario) uid(ctx context.Context, of string) (string, error) {
	o, err := s.named(of)
	if err == nil {
		err = s.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	}
	if err != nil {
		return "", err
	}
	return string(o.GetUID()), nil
}

func kindOf(kind string) (schema.GroupVersionKind, error) {
	for _, gvk := range slices.Concat(kinds, shared) {
		if strings.EqualFold(gvk.Kind, kind) {
			return gvk, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("kind %q is not one of a scenario", kind)
}

func (s *scenario) patch(ctx context.Context, d *datadriven.TestData, input string) error {
	objects, err := s.objects(ctx, d)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := s.send(ctx, d, obj, input); err != nil {
			return err
		}
	}
	return nil
}

// send sends a merge patch of an object, or with sub= of a subresource.
func (s *scenario) send(ctx context.Context, d *datadriven.TestData, obj client.Object, input string) error {
	data, err := yaml.YAMLToJSONStrict([]byte(input))
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, data)
	if sub, _ := argument(d, "sub"); sub != "" {
		return s.client.SubResource(sub).Patch(ctx, obj, patch)
	}
	return s.client.Patch(ctx, obj, patch)
}

func (s *scenario) delete(ctx context.Context, d *datadriven.TestData) error {
	objects, err := s.objects(ctx, d)
	if err != nil {
		return err
	}
	propagation := metav1.DeletePropagationBackground
	switch {
	case d.HasArg("orphan"):
		propagation = metav1.DeletePropagationOrphan
	case d.HasArg("foreground"):
		propagation = metav1.DeletePropagationForeground
	}
	for _, obj := range objects {
		if err := s.client.Delete(ctx, obj, client.PropagationPolicy(propagation)); err != nil {
			return err
		}
	}
	return nil
}

// value returns the value of NAME=VALUE, or "".
func value(d *datadriven.TestData, name string) string {
	v, _ := argument(d, name)
	return v
}

// argument returns the value of NAME=VALUE.
func argument(d *datadriven.TestData, name string) (string, bool) {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return a.Vals[0], true
		}
	}
	return "", false
}
