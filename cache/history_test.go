package cache_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
)

// A judge is a handler that finds fault with what it hears: an object must be added before it
// changes, change from what it was, and to what comes later, and must be gone before it is added
// again.
type judge struct {
	mu      sync.Mutex
	name    string
	objects map[string]*corev1.ConfigMap
	faults  []string
	unknown int // deletions that were missed
}

func (j *judge) fault(format string, args ...any) {
	j.faults = append(j.faults, j.name+": "+fmt.Sprintf(format, args...))
}

func (j *judge) OnAdd(obj client.Object, _ bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := obj.(*corev1.ConfigMap)
	key := o.Namespace + "/" + o.Name
	if j.objects[key] != nil {
		j.fault("%s was added twice", key)
	}
	j.whole(o)
	j.objects[key] = o
}

func (j *judge) OnUpdate(old, obj client.Object) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, o := old.(*corev1.ConfigMap), obj.(*corev1.ConfigMap)
	key := o.Namespace + "/" + o.Name
	before := j.objects[key]
	switch {
	case before == nil:
		j.fault("%s changed and was not there", key)
	case before.ResourceVersion != from.ResourceVersion || before.UID != from.UID:
		j.fault("%s changed from %s and was %s", key, from.ResourceVersion, before.ResourceVersion)
	case number(o) < number(from):
		j.fault("%s went back from %s to %s", key, from.ResourceVersion, o.ResourceVersion)
	}
	j.whole(o)
	j.objects[key] = o
}

func (j *judge) OnDelete(obj client.Object, unknown bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := obj.(*corev1.ConfigMap)
	key := o.Namespace + "/" + o.Name
	if before := j.objects[key]; before == nil {
		j.fault("%s was deleted and was not there", key)
	} else if unknown && before.ResourceVersion != o.ResourceVersion {
		j.fault("the last known state of %s is %s and not %s", key, before.ResourceVersion, o.ResourceVersion)
	}
	if unknown {
		j.unknown++
	}
	delete(j.objects, key)
}

// whole finds an object that was torn.
func (j *judge) whole(o *corev1.ConfigMap) {
	if o.Data["written"] != o.ResourceVersion {
		j.fault("%s has %s at %s", o.Name, o.Data["written"], o.ResourceVersion)
	}
}

func number(o *corev1.ConfigMap) int {
	n, _ := strconv.Atoi(o.ResourceVersion)
	return n
}

// asHandler is a judge of client-go's informer.
func (j *judge) asHandler() clientcache.ResourceEventHandler {
	return clientcache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { j.OnAdd(o.(*corev1.ConfigMap).DeepCopy(), initial) },
		UpdateFunc: func(old, o any) { j.OnUpdate(old.(*corev1.ConfigMap), o.(*corev1.ConfigMap).DeepCopy()) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(clientcache.DeletedFinalStateUnknown); ok {
				j.OnDelete(unknown.Obj.(*corev1.ConfigMap), true)
			} else {
				j.OnDelete(o.(*corev1.ConfigMap), false)
			}
		},
	}
}

func (j *judge) versions() map[string]string { return versions(maps.Values(j.objects)) }

func versions(objects func(func(*corev1.ConfigMap) bool)) map[string]string {
	m := map[string]string{}
	for o := range objects {
		m[o.Namespace+"/"+o.Name] = o.ResourceVersion + "=" + o.Data["written"] + o.Data["text"]
	}
	return m
}

// The same history of changes, drops, faults and forgotten history leads to the same store here and
// in client-go, and each of their handlers hears a legal story of how that came.
func TestHistories(t *testing.T) {
	first := seeds.Of(t)
	for i := range uint64(12) {
		t.Run(fmt.Sprintf("seed=%d", first+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveHistory(t, first+i) })
		})
	}
}

func liveHistory(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	s := newFakeServer(seed)
	s.noStreams = random.IntN(3) == 0
	s.mute = !s.noStreams && random.IntN(4) == 0
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	config := &rest.Config{Host: "http://fake", Transport: s}
	opts := cache.Options{Mapper: fakeMapper(), Logger: slog.New(slog.DiscardHandler)}
	if random.IntN(2) == 0 {
		opts.DefaultStorage = cache.Decoded
	}
	c, err := cache.New(config, opts)
	if err != nil {
		t.Fatal(err)
	}
	length := func(o client.Object) []string { return []string{fmt.Sprint(len(o.(*corev1.ConfigMap).Data["text"]))} }
	if err := c.IndexField(ctx, &corev1.ConfigMap{}, "length", length); err != nil {
		t.Fatal(err)
	}
	ours, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	judges := []*judge{}
	newJudge := func(name string) *judge {
		j := &judge{name: name, objects: map[string]*corev1.ConfigMap{}}
		judges = append(judges, j)
		return j
	}
	add := func(name string, opts ...cache.HandlerOption) cache.Registration {
		r, err := ours.AddEventHandler(newJudge(name), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	add("ours")
	add("ours, resynced", cache.ResyncPeriod(time.Duration(1+random.IntN(100))*time.Minute))
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})

	theirConfig := rest.CopyConfig(config)
	if random.IntN(2) == 0 {
		theirConfig.ContentType = mediaOf(true)
	}
	set, err := kubernetes.NewForConfig(theirConfig)
	if err != nil {
		t.Fatal(err)
	}
	theirs := clientcache.NewSharedIndexInformer(clientcache.NewListWatchFromClient(set.CoreV1().RESTClient(), "configmaps", "", fields.Everything()),
		&corev1.ConfigMap{}, 0, clientcache.Indexers{})
	_ = theirs.SetWatchErrorHandler(func(*clientcache.Reflector, error) {}) // which would otherwise sleep on the clock of the world
	if !s.mute {                                                            // which is more than it can take
		if _, err := theirs.AddEventHandler(newJudge("client-go").asHandler()); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { theirs.Run(ctx.Done()) })
	}

	s.setFaults(random.Float64() * 0.3)
	var removed cache.Registration
	for step := range 300 {
		namespace, name := fmt.Sprintf("ns-%d", random.IntN(3)), fmt.Sprintf("name-%d", random.IntN(8))
		switch random.IntN(12) {
		case 0, 1, 2:
			s.remove(namespace, name)
		case 3:
			time.Sleep(time.Duration(random.ExpFloat64() * float64(10*time.Second)))
		case 4:
			if random.IntN(4) == 0 {
				s.cut()
			}
			if random.IntN(4) == 0 {
				s.compact()
			}
			if random.IntN(10) == 0 {
				time.Sleep(time.Duration(random.IntN(100)) * time.Hour) // a clock that jumps
			}
		default:
			s.put(namespace, name)
		}
		if random.IntN(10) == 0 {
			synctest.Wait()
		}
		switch step {
		case 100:
			add("ours, late")
			removed = add("ours, removed")
		case 200:
			if err := ours.RemoveEventHandler(removed); err != nil {
				t.Error(err)
			}
			judges = judges[:len(judges)-1]
		}
	}
	s.setFaults(0)
	time.Sleep(time.Hour)

	want := versions(maps.Values(s.objects))
	for _, j := range judges {
		j.mu.Lock()
		for _, f := range j.faults {
			t.Error(f)
		}
		if got := j.versions(); !maps.Equal(got, want) {
			t.Errorf("%s: told %v, want %v", j.name, got, want)
		}
		j.mu.Unlock()
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	items := func(yield func(*corev1.ConfigMap) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	}
	if got := versions(items); !maps.Equal(got, want) {
		t.Errorf("the store has %v, want %v", got, want)
	}
	found := 0
	for n := range 60 {
		if err := c.List(ctx, &list, client.MatchingFields{"length": fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
		found += len(list.Items)
		for o := range items {
			if len(o.Data["text"]) != n {
				t.Errorf("%s is in the index at %d", o.Name, n)
			}
		}
	}
	if found != len(want) {
		t.Errorf("the index has %d of %d objects", found, len(want))
	}
}
