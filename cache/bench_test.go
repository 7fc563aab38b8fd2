package cache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeobject "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
)

// benchPod is a pod as a Deployment makes it and a kubelet runs it: about 2.9 KB as JSON.
func benchPod(i int) *corev1.Pod {
	var (
		at     = metav1.NewTime(time.Date(2026, 5, 4, 10, 0, i%3600, 0, time.UTC))
		set    = fmt.Sprintf("web-%d-7d9c6b8f5d", i/50)
		name   = fmt.Sprintf("%s-%05x", set, i)
		random = sha256.Sum256([]byte(name)) // what no two pods share
		other  = sha256.Sum256([]byte(set))
		uid    = fmt.Sprintf("%x-%x-%x-%x-%x", random[:4], random[4:6], random[6:8], random[8:10], random[10:16])
		owner  = fmt.Sprintf("%x-%x-%x-%x-%x", other[:4], other[4:6], other[6:8], other[8:10], other[10:16])
		image  = fmt.Sprintf("registry.example.com/shop-%d/web:v1.%d.3", i/500, i/50%40)
		ip     = fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
		fields = func(s string) *metav1.FieldsV1 { return &metav1.FieldsV1{Raw: []byte(s)} }
	)
	limits := corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("128Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: set + "-", Namespace: fmt.Sprintf("team-%d", i%100), UID: types.UID(uid),
			ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: at,
			Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("web-%d", i/50), "pod-template-hash": "7d9c6b8f5d"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(owner),
				Controller: new(true), BlockOwnerDeletion: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
				FieldsV1: fields(`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:pod-template-hash":{}},` +
					`"f:ownerReferences":{".":{},"k:{\"uid\":\"` + owner + `\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},` +
					`"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},` +
					`"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}}}}},` +
					`"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{}}}`),
			}, {
				Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", Subresource: "status",
				FieldsV1: fields(`{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:status":{},"f:type":{}},` +
					`"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},` +
					`"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"` + ip + `\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`),
			}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: image, ImagePullPolicy: "IfNotPresent",
				Ports:                  []corev1.ContainerPort{{ContainerPort: 8080, Protocol: "TCP"}},
				Resources:              corev1.ResourceRequirements{Limits: limits, Requests: limits},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File"}},
			RestartPolicy: "Always", DNSPolicy: "ClusterFirst", ServiceAccountName: "default", NodeName: fmt.Sprintf("node-%d", i%500),
			SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: new(int64(30)),
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", HostIP: "192.168.1.7", PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &at,
			Conditions: []corev1.PodCondition{
				{Type: "Ready", Status: "True", LastTransitionTime: at},
				{Type: "ContainersReady", Status: "True", LastTransitionTime: at},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, Started: new(true), Image: image,
				ContainerID: fmt.Sprintf("containerd://%x", random),
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}},
		},
	}
}

// podServer answers lists and watches of pods, in protobuf where that is asked for, and serves each
// body from memory.
type podServer struct{ watch, list map[bool][]byte }

func newPodServer(tb testing.TB, pods int) *podServer {
	tb.Helper()
	s := &podServer{watch: map[bool][]byte{}, list: map[bool][]byte{}}
	for _, protobuf := range []bool{false, true} {
		info, _ := runtimeobject.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaOf(protobuf))
		encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
		streams := scheme.Codecs.EncoderForVersion(info.StreamSerializer, corev1.SchemeGroupVersion)
		var body bytes.Buffer
		frames := info.StreamSerializer.Framer.NewFrameWriter(&body)
		send := func(kind string, obj runtimeobject.Object) {
			raw, err := runtimeobject.Encode(encoder, obj)
			if err != nil {
				tb.Fatal(err)
			}
			event := &metav1.WatchEvent{Type: kind, Object: runtimeobject.RawExtension{Raw: raw}}
			if err := streams.Encode(event, frames); err != nil {
				tb.Fatal(err)
			}
		}
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9000000"}}
		for i := range pods {
			pod := benchPod(i)
			send("ADDED", pod)
			list.Items = append(list.Items, *pod)
		}
		send("BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9000000",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
		s.watch[protobuf] = body.Bytes()
		var err error
		if s.list[protobuf], err = runtimeobject.Encode(encoder, list); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

func mediaOf(protobuf bool) string {
	if protobuf {
		return "application/vnd.kubernetes.protobuf"
	}
	return "application/json"
}

func (s *podServer) RoundTrip(r *http.Request) (*http.Response, error) {
	protobuf := strings.Contains(r.Header.Get("Accept"), "protobuf")
	header := http.Header{"Content-Type": {mediaOf(protobuf)}}
	var body io.Reader = bytes.NewReader(s.list[protobuf])
	if q := r.URL.Query(); q.Get("watch") != "" {
		header.Set("Content-Type", mediaOf(protobuf)+";stream=watch")
		open := endless{r.Context()}
		body = open
		if q.Get("sendInitialEvents") == "true" {
			body = io.MultiReader(bytes.NewReader(s.watch[protobuf]), open)
		}
	}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(body), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// endless is a body without data that ends with the request.
type endless struct{ ctx context.Context }

func (e endless) Read([]byte) (int, error) {
	<-e.ctx.Done()
	return 0, e.ctx.Err()
}

func podMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	return m
}

// ours fills a cache with pods. Not protobuf, it is a cache as of a custom kind, which comes and is
// kept as JSON.
func ours(tb testing.TB, s *podServer, storage cache.Storage, protobuf bool, indexed bool) cache.Cache {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	transport := http.RoundTripper(s)
	if !protobuf {
		transport = jsonOnly{s}
	}
	c, err := cache.New(&rest.Config{Host: "http://server", Transport: transport}, cache.Options{Mapper: podMapper(), DefaultStorage: storage})
	if err != nil {
		tb.Fatal(err)
	}
	if indexed {
		if err := c.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", byNode); err != nil {
			tb.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Start(ctx)
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
	if _, err := c.GetInformer(ctx, &corev1.Pod{}); err != nil {
		tb.Fatal(err)
	}
	if !c.WaitForCacheSync(ctx) {
		tb.Fatal("no sync")
	}
	return c
}

func byNode(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }

// jsonOnly is a server that has no protobuf.
type jsonOnly struct{ http.RoundTripper }

func (j jsonOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept", "application/json")
	return j.RoundTripper.RoundTrip(r)
}

// theirs fills a SharedIndexInformer of client-go with pods.
func theirs(tb testing.TB, s *podServer, protobuf bool) clientcache.SharedIndexInformer {
	tb.Helper()
	config := &rest.Config{Host: "http://server", Transport: s} // which prefers protobuf
	if !protobuf {
		config.Transport = jsonOnly{s}
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(set, 0)
	inf := factory.Core().V1().Pods().Informer()
	err = inf.AddIndexers(clientcache.Indexers{"node": func(o any) ([]string, error) { return byNode(o.(*corev1.Pod)), nil }})
	if err != nil {
		tb.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	tb.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	if !clientcache.WaitForCacheSync(stop, inf.HasSynced) {
		tb.Fatal("no sync")
	}
	return inf
}

func heap() float64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkMemory is the heap that a pod takes in a cache of 100,000 of them.
func BenchmarkMemory(b *testing.B) {
	const pods = 100_000
	one, err := json.Marshal(benchPod(1))
	if err != nil {
		b.Fatal(err)
	}
	s := newPodServer(b, pods)
	measure := func(name string, fill func(b *testing.B) any) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				before := heap()
				kept := fill(b)
				b.ReportMetric((heap()-before)/pods, "B/pod")
				runtime.KeepAlive(kept)
			}
			b.ReportMetric(float64(len(one)), "json-B/pod")
			b.ReportMetric(0, "ns/op")
		})
	}
	measure("compact", func(b *testing.B) any { return ours(b, s, cache.Compact, true, false) })
	measure("compact-indexed", func(b *testing.B) any { return ours(b, s, cache.Compact, true, true) })
	measure("compact-json", func(b *testing.B) any { return ours(b, s, cache.Compact, false, false) })
	measure("decoded", func(b *testing.B) any { return ours(b, s, cache.Decoded, true, false) })
	measure("client-go", func(b *testing.B) any { return theirs(b, s, true) })
	runtime.KeepAlive(s)
}

// BenchmarkGet is a read of one pod that belongs to the reader.
func BenchmarkGet(b *testing.B) {
	const pods = 10_000
	s := newPodServer(b, pods)
	get := func(c cache.Cache) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				n := i % pods
				var pod corev1.Pod
				key := client.ObjectKey{Namespace: fmt.Sprintf("team-%d", n%100), Name: fmt.Sprintf("web-%d-7d9c6b8f5d-%05x", n/50, n)}
				if err := c.Get(context.Background(), key, &pod); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("compact", get(ours(b, s, cache.Compact, true, false)))
	b.Run("compact-json", get(ours(b, s, cache.Compact, false, false)))
	b.Run("decoded", get(ours(b, s, cache.Decoded, true, false)))
	store := theirs(b, s, true).GetStore()
	// As controller-runtime reads into what its caller has.
	read := func(key string, into client.Object) error {
		obj, ok, err := store.GetByKey(key)
		if ok {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(obj.(runtimeobject.Object).DeepCopyObject()).Elem())
		}
		return err
	}
	b.Run("client-go", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			n := i % pods
			var pod corev1.Pod
			if err := read(fmt.Sprintf("team-%d/web-%d-7d9c6b8f5d-%05x", n%100, n/50, n), &pod); err != nil || pod.Name == "" {
				b.Fatal(pod.Name, err)
			}
		}
	})
}

// BenchmarkListByIndex lists the 200 pods of a node.
func BenchmarkListByIndex(b *testing.B) {
	s := newPodServer(b, 100_000)
	for _, storage := range []cache.Storage{cache.Compact, cache.Decoded} {
		c := ours(b, s, storage, true, true)
		b.Run(strings.ToLower(string(storage)), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var list corev1.PodList
				if err := c.List(context.Background(), &list, client.MatchingFields{"spec.nodeName": fmt.Sprintf("node-%d", i%500)}); err != nil {
					b.Fatal(err)
				}
				if len(list.Items) != 200 {
					b.Fatal(len(list.Items))
				}
			}
		})
	}
	indexer := theirs(b, s, true).GetIndexer()
	b.Run("client-go", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			found, err := indexer.ByIndex("node", fmt.Sprintf("node-%d", i%500))
			if err != nil || len(found) != 200 {
				b.Fatal(len(found), err)
			}
			// As controller-runtime does.
			objects := make([]runtimeobject.Object, len(found))
			for i, o := range found {
				objects[i] = o.(*corev1.Pod).DeepCopy()
			}
			var list corev1.PodList
			if err := meta.SetList(&list, objects); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkInitialSync is the time until an informer has 20,000 pods.
func BenchmarkInitialSync(b *testing.B) {
	const pods = 20_000
	s := newPodServer(b, pods)
	for _, tc := range []struct {
		name              string
		protobuf, indexed bool
	}{{"compact", true, false}, {"compact-indexed", true, true}, {"compact-json", false, false}} {
		b.Run(tc.name, func(b *testing.B) {
			for b.Loop() {
				ours(b, s, cache.Compact, tc.protobuf, tc.indexed)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/pods, "us/pod")
		})
	}
	for _, protobuf := range []bool{true, false} {
		b.Run(fmt.Sprintf("client-go/protobuf=%t", protobuf), func(b *testing.B) {
			for b.Loop() {
				theirs(b, s, protobuf)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/pods, "us/pod")
		})
	}
}
