package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestLayout: what is stored is what kube-apiserver would read, and no more.
func TestLayout(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica(t)
	e := entry(t, pod("web"), 0, "x")
	rev, err := a.Append(t.Context(), batch(e))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.client(t).Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Kvs) != 1 || string(all.Kvs[0].Key) != "/registry/pods/default/web" || !bytes.Equal(all.Kvs[0].Value, e.Object.Raw) || all.Kvs[0].ModRevision != int64(rev) {
		t.Errorf("stored %v", all.Kvs)
	}
}

// TestOwnAndOthers: a replica keeps the objects that it wrote; of those of others it
// knows the bytes, and when it learned of them.
func TestOwnAndOthers(t *testing.T) {
	c := startCluster(t, 1)
	a, b := c.replica(t), c.replica(t)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 50 {
				k := pod(fmt.Sprint(w))
				e := entry(t, k, a.twin.Revision(k), fmt.Sprint(i))
				if _, err := a.Append(t.Context(), batch(e)); err != nil {
					t.Error(err)
				}
				if a.twin.Live()[k] != e.Object {
					t.Errorf("write %d of %s became another object", i, k)
				}
			}
		})
	}
	all.Wait()
	if _, err := b.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for k, o := range b.twin.Live() {
		if o.Schema != 0 || time.Since(o.Written) > time.Minute {
			t.Errorf("%s has schema %d of %v", k, o.Schema, o.Written)
		}
	}
	if err := a.twin.SameEntries(b.twin, 0); err != nil {
		t.Error(err)
	}
}

// TestForeignValues: objects that kube-apiserver wrote are read; what it keeps
// besides is left alone.
func TestForeignValues(t *testing.T) {
	c := startCluster(t, 1)
	client := c.client(t)
	pb := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	stored := func(e runtime.Encoder, o runtime.Object) string {
		var value bytes.Buffer
		if err := e.Encode(o, &value); err != nil {
			t.Fatal(err)
		}
		return value.String()
	}
	configMap := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "u1"},
			Data:       map[string]string{"text": text},
		}
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "namespace": "default", "uid": "u2", "creationTimestamp": nil},
	}}
	put := func(key, value string) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("/registry/configmaps/default/c", stored(pb, configMap("one")))
	put("/registry/example.com/widgets/default/w", stored(unstructured.UnstructuredJSONScheme, widget))
	put("/registry/masterleases/10.0.0.1", "k8s\x00rubbish")
	put("/registry/ranges/serviceips", "rubbish")
	put("/registryother/pods/default/x", "rubbish")

	a := c.replica(t)
	maps := object.Key{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "default", Name: "c"}
	live := a.twin.Live()
	if len(live) != 2 || !strings.Contains(string(live[maps].Raw), `"data":{"text":"one"},"kind":"ConfigMap"`) {
		t.Fatalf("recovered %v", live)
	}
	put("/registry/configmaps/default/c", stored(pb, configMap("two")))
	put("/registry/masterleases/10.0.0.1", "k8s\x00more rubbish")
	if _, err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := a.twin.Live()[maps]
	if !strings.Contains(string(o.Raw), `"data":{"text":"two"}`) {
		t.Errorf("then %s", o.Raw)
	}
	records, err := a.History(t.Context(), maps.Resource, 0, o.Revision, 0)
	if err != nil || len(records) != 2 || !strings.Contains(string(records[1].Replaced.Raw), `"one"`) {
		t.Errorf("history %v, error %v", records, err)
	}
	if _, err := a.Append(t.Context(), batch(journal.Entry{Key: maps, Prev: o.Revision})); err != nil {
		t.Error(err)
	}
	report, err := a.Check(t.Context())
	if err != nil || report.Objects != 1 || len(report.Problems) != 0 {
		t.Errorf("report %+v, error %v", report, err)
	}
}

// TestDamaged: what cannot be read stops no server, and keeps none from starting, but is known to
// be there.
func TestDamaged(t *testing.T) {
	c := startCluster(t, 1)
	client := c.client(t)
	a := c.replica(t)
	at := a.write(t, "a", "good")
	put, err := client.Put(t.Context(), "/registry/pods/default/a", "rubbish")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := a.twin.Revision(pod("a")); now != at {
		t.Errorf("at revision %d, was at %d", now, at)
	}
	if a.twin.Readable(pod("a")) == nil {
		t.Error("the unreadable object is not reported")
	}
	var damaged *journal.DamagedError
	_, err = a.Append(t.Context(), batch(entry(t, pod("a"), at, "x")))
	if !errors.As(err, &damaged) || !strings.Contains(err.Error(), "/registry/pods/default/a") {
		t.Errorf("append: %v", err)
	}
	if _, err := a.History(t.Context(), pods, at, object.Revision(put.Header.Revision), 0); !errors.As(err, &damaged) {
		t.Errorf("history: %v", err)
	}
	if report, err := a.Check(t.Context()); err != nil || len(report.Problems) != 1 || report.Problems[0].Key != pod("a") {
		t.Errorf("check: %+v, %v", report, err)
	}
	a.write(t, "b", "others go on")
	j, err := etcd.Open(t.Context(), a.options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	late := journaltest.NewTwin()
	if err := j.Recover(t.Context(), late); err != nil || late.Readable(pod("a")) == nil || late.Revision(pod("b")) == 0 {
		t.Errorf("recover: %v, readable: %v", err, late.Readable(pod("a")))
	}
	if _, err := j.Append(t.Context(), batch(entry(t, pod("a"), 0, "x"))); !errors.As(err, &damaged) {
		t.Errorf("append after a start: %v", err)
	}
	if _, err := client.Delete(t.Context(), "/registry/pods/default/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.twin.Readable(pod("a")); err != nil {
		t.Errorf("it is gone, and cannot be read: %v", err)
	}
	a.write(t, "a", "again")
	if _, err := j.Sync(t.Context()); err != nil || late.Readable(pod("a")) != nil || late.Revision(pod("a")) == 0 {
		t.Errorf("sync: %v, readable: %v", err, late.Readable(pod("a")))
	}
}

// lateKey is a Sealer that can open nothing until it has got its key.
type lateKey struct{ there atomic.Bool }

func (*lateKey) Ready(object.Key) error { return nil }

func (*lateKey) Seal(_ object.Key, raw []byte) ([]byte, error) {
	return append([]byte("sealed:"), raw...), nil
}

func (k *lateKey) Open(_ object.Key, stored []byte) ([]byte, bool, error) {
	if !k.there.Load() {
		return nil, false, journal.ErrUnopened
	}
	return bytes.TrimPrefix(stored, []byte("sealed:")), false, nil
}

// TestLateKey: what a server could not open is there once it can.
func TestLateKey(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica(t)
	key := &lateKey{}
	options := a.options(t)
	options.Sealer, options.RequestTimeout = key, 200*time.Millisecond
	j, err := etcd.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	twin := journaltest.NewPlainTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	at := a.write(t, "a", "x")
	if _, err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := twin.Readable(pod("a")); !errors.Is(err, journal.ErrUnopened) || twin.Revision(pod("a")) != 0 {
		t.Fatalf("read without the key: %v", err)
	}
	key.there.Store(true)
	for tick := time.Tick(10 * time.Millisecond); twin.Readable(pod("a")) != nil; {
		select {
		case <-tick:
		case <-time.After(20 * time.Second):
			t.Fatal("not read again")
		}
	}
	if got := twin.Revision(pod("a")); got != at {
		t.Errorf("at revision %d, want %d", got, at)
	}
	at = a.write(t, "a", "y")
	if _, err := j.Sync(t.Context()); err != nil || twin.Revision(pod("a")) != at {
		t.Errorf("goes on at %d, want %d: %v", twin.Revision(pod("a")), at, err)
	}
}

// TestShared: all replicas get the secret of the one that wrote it first.
func TestShared(t *testing.T) {
	c := startCluster(t, 1)
	var made atomic.Int64
	secrets := make([]string, 3)
	var all sync.WaitGroup
	for i := range secrets {
		r := c.replica(t)
		all.Go(func() {
			secret, err := r.Shared(t.Context(), "authority", func() ([]byte, error) {
				made.Add(1)
				return []byte(fmt.Sprint("secret of ", i)), nil
			})
			if err != nil {
				t.Error(err)
			}
			secrets[i] = string(secret)
		})
	}
	all.Wait()
	secrets = slices.Compact(secrets)
	if len(secrets) != 1 || !strings.HasPrefix(secrets[0], "secret of ") || made.Load() == 0 {
		t.Errorf("secrets %q", secrets)
	}
	a := c.replica(t)
	secret, err := a.Shared(t.Context(), "authority", func() ([]byte, error) { return nil, errors.New("made again") })
	if err != nil || string(secret) != secrets[0] {
		t.Errorf("later: %q, %v", secret, err)
	}
	if n := len(a.twin.Entries()); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// TestForeignCompaction: reads of history that another program has compacted return
// ErrCompacted, and so do those of a replica that starts afterwards.
func TestForeignCompaction(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica(t)
	var last object.Revision
	for i := range 10 {
		last = a.write(t, "a", fmt.Sprint(i))
	}
	if _, err := c.client(t).Compact(t.Context(), int64(last)-3); err != nil {
		t.Fatal(err)
	}
	if _, err := a.History(t.Context(), pods, last-4, last, 0); !errors.Is(err, journal.ErrCompacted) {
		t.Errorf("history: %v", err)
	}
	if a.Compacted() != last-3 {
		t.Errorf("compacted up to %d, want %d", a.Compacted(), last-3)
	}
	if records, err := a.History(t.Context(), pods, last-3, last, 0); err != nil || len(records) != 3 || records[0].Replaced == nil {
		t.Errorf("history: %v, %v", records, err)
	}
	if b := c.replica(t); b.Compacted() != last-3 {
		t.Errorf("after a start compacted up to %d, want %d", b.Compacted(), last-3)
	}
}
