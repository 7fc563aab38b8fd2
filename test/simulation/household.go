package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A household uses the server's background tasks with client-go: it creates namespaces, owners and
// dependents, applies config maps, and deletes owners and namespaces. An informer follows the
// dependents. At the end, acknowledged objects must exist, deleted ones must be gone with their
// dependents, and nothing else may exist.
//
// Requests are sent one after the other. A request without a response may take effect at any later
// time, or never.
type household struct {
	client kubernetes.Interface
	seed   seed

	namespaces map[string]*possession
	owners     map[string]*possession
	dependents []*possession
	applied    map[string]*manifest

	informer  cache.SharedIndexInformer
	following sync.WaitGroup
	stop      context.CancelFunc // stops the informer
	mu        sync.Mutex         // guards the fields below, which the informer's handlers use
	born      map[types.UID]time.Time
	wrong     []error
}

// A possession is an object that was created.
type possession struct {
	namespace, name string
	uid             types.UID
	born            time.Time
	owner           *possession // nil without an owner
	deleting        bool        // a delete was sent,
	deleted         bool        // and acknowledged
}

// A manifest has what was applied to a config map.
type manifest struct {
	last string          // the last acknowledged value
	open map[string]bool // values without a response
}

func newHousehold(config *rest.Config, s seed) (*household, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	h := &household{
		client: client, seed: s, namespaces: map[string]*possession{}, owners: map[string]*possession{},
		applied: map[string]*manifest{}, born: map[types.UID]time.Time{},
	}
	secrets := client.CoreV1().Secrets("")
	h.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: secrets.Watch,
	}, &corev1.Secret{}, 0, nil)
	_, err = h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.see(nil, obj.(*corev1.Secret)) },
		UpdateFunc: func(old, obj any) { h.see(old.(*corev1.Secret), obj.(*corev1.Secret)) },
	})
	return h, err
}

// see checks an event of the informer about a dependent.
func (h *household) see(old, s *corev1.Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, known := h.born[s.UID]; known && !at.Equal(s.CreationTimestamp.Time) {
		h.wrong = append(h.wrong, fmt.Errorf("secret %s was created at %v, and now at %v", s.Name, at, s.CreationTimestamp))
	}
	h.born[s.UID] = s.CreationTimestamp.Time
	if old != nil && len(s.ResourceVersion) <= len(old.ResourceVersion) && s.ResourceVersion < old.ResourceVersion {
		h.wrong = append(h.wrong, fmt.Errorf("secret %s went back from %s to %s", s.Name, old.ResourceVersion, s.ResourceVersion))
	}
}

// begin starts the informer, which runs until close.
func (h *household) begin(ctx context.Context) {
	ctx, h.stop = context.WithCancel(ctx)
	h.following.Go(func() { h.informer.RunWithContext(ctx) })
}

func (h *household) close() {
	h.stop()
	h.following.Wait()
}

// work sends requests until the context ends.
func (h *household) work(ctx context.Context, _ *rand.Rand) error {
	for n := 0; ctx.Err() == nil; n++ {
		// The request under way is completed.
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		h.do(request, h.seed.of("request", n), n)
		cancel()
		time.Sleep(time.Duration(h.seed.of("pause", n).int("pause", int(40*time.Millisecond))))
	}
	return nil
}

// do sends one request.
func (h *household) do(ctx context.Context, s seed, n int) {
	namespaces := living(h.namespaces)
	if len(namespaces) == 0 || s.int("namespace", 10) == 0 {
		name := fmt.Sprintf("household-%d", n)
		ns, err := h.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			h.namespaces[name] = &possession{name: name, uid: ns.UID, born: ns.CreationTimestamp.Time}
		}
		return
	}
	ns := namespaces[s.int("which", len(namespaces))]
	owners := slices.DeleteFunc(living(h.owners), func(p *possession) bool { return p.namespace != ns.name })
	switch what := s.int("what", 10); {
	case what == 0 && len(namespaces) > 1:
		ns.deleting = true
		ns.deleted = gone(h.client.CoreV1().Namespaces().Delete(ctx, ns.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.uid}}))
	case what < 3 && len(owners) > 2:
		o := owners[s.int("owner", len(owners))]
		o.deleting = true
		o.deleted = gone(h.client.CoreV1().ConfigMaps(ns.name).Delete(ctx, o.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.uid}}))
	case what < 5:
		name := fmt.Sprintf("owner-%d", n)
		o, err := h.client.CoreV1().ConfigMaps(ns.name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			h.owners[ns.name+"/"+name] = &possession{namespace: ns.name, name: name, uid: o.UID, born: o.CreationTimestamp.Time, owner: ns}
		}
	case what < 8 && len(owners) > 0:
		o := owners[s.int("owner", len(owners))]
		d := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("dependent-%d", n),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: o.name, UID: o.uid}},
		}}
		if d, err := h.client.CoreV1().Secrets(ns.name).Create(ctx, d, metav1.CreateOptions{}); err == nil {
			h.dependents = append(h.dependents, &possession{namespace: ns.name, name: d.Name, uid: d.UID, born: d.CreationTimestamp.Time, owner: o})
		}
	default:
		value := fmt.Sprint(n)
		m := h.applied[ns.name]
		if m == nil {
			m = &manifest{open: map[string]bool{}}
			h.applied[ns.name] = m
		}
		config := v1.ConfigMap("applied", ns.name).WithData(map[string]string{"value": value})
		_, err := h.client.CoreV1().ConfigMaps(ns.name).Apply(ctx, config, metav1.ApplyOptions{FieldManager: "household", Force: true})
		if err == nil {
			m.last = value
		} else {
			m.open[value] = true
		}
	}
}

// gone reports whether a deletion was acknowledged. An object that does not exist was deleted by an
// earlier request, or with its namespace.
func gone(err error) bool { return err == nil || apierrors.IsNotFound(err) }

// living returns the objects whose deletion was not requested, by name.
func living(all map[string]*possession) (list []*possession) {
	for _, p := range all {
		if !p.deleting && !(p.owner != nil && p.owner.deleting) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *possession) int { return strings.Compare(a.name, b.name) })
	return list
}

// settle waits until everything has converged, and returns what has not.
func (h *household) settle(ctx context.Context) (err error) {
	for range 120 {
		if err = h.judge(ctx); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(append(h.wrong, err)...)
}

func (h *household) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	all, err := h.list(ctx)
	if err != nil {
		return err
	}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	check := func(kind string, p *possession) {
		meta, there := all[kind+" "+p.namespace+"/"+p.name]
		if there = there && meta.GetUID() == p.uid; there && !meta.GetCreationTimestamp().Time.Equal(p.born) {
			fail("%s %s/%s was created at %v, and now at %v", kind, p.namespace, p.name, p.born, meta.GetCreationTimestamp())
		}
		deleting, deleted := p.deleting, p.deleted
		for o := p.owner; o != nil; o = o.owner {
			deleting, deleted = deleting || o.deleting, deleted || o.deleted
		}
		switch {
		case deleted && there:
			fail("%s %s/%s is there, but was deleted, or what it belongs to", kind, p.namespace, p.name)
		case !deleting && !there:
			fail("%s %s/%s is not there, but was not deleted, nor what it belongs to", kind, p.namespace, p.name)
		}
		if p.owner != nil && kind == "secret" {
			if owner, ok := all["configmap "+p.namespace+"/"+p.owner.name]; there != (ok && owner.GetUID() == p.owner.uid) {
				fail("secret %s/%s is there: %v; its owner is: %v", p.namespace, p.name, there, !there)
			}
		}
	}
	for _, p := range h.namespaces {
		check("namespace", p)
	}
	for _, p := range h.owners {
		check("configmap", p)
	}
	for _, p := range h.dependents {
		check("secret", p)
	}
	for ns, m := range h.applied {
		meta, there := all["configmap "+ns+"/applied"]
		if !there {
			if !h.namespaces[ns].deleting && m.last != "" {
				fail("config map %s/applied is not there", ns)
			}
			continue
		}
		if value := meta.(*corev1.ConfigMap).Data["value"]; value != m.last && !m.open[value] {
			fail("config map %s/applied has the value %s, but %s was acknowledged last, and there was no answer to %v", ns, value, m.last, m.open)
		}
	}
	secrets := 0
	for name := range all {
		if strings.HasPrefix(name, "secret ") {
			secrets++
			if _, known, _ := h.informer.GetStore().GetByKey(strings.TrimPrefix(name, "secret ")); !known {
				fail("the informer does not know of %s", name)
			}
		}
	}
	if known := len(h.informer.GetStore().ListKeys()); known != secrets {
		fail("the informer knows %d secrets, there are %d", known, secrets)
	}
	return errors.Join(errs...)
}

// list returns all objects, by kind, namespace and name.
func (h *household) list(ctx context.Context) (map[string]metav1.Object, error) {
	all := map[string]metav1.Object{}
	namespaces, err := h.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range namespaces.Items {
		all["namespace /"+namespaces.Items[i].Name] = &namespaces.Items[i]
	}
	configs, err := h.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range configs.Items {
		all["configmap "+configs.Items[i].Namespace+"/"+configs.Items[i].Name] = &configs.Items[i]
	}
	secrets, err := h.client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range secrets.Items {
		all["secret "+secrets.Items[i].Namespace+"/"+secrets.Items[i].Name] = &secrets.Items[i]
	}
	return all, nil
}
