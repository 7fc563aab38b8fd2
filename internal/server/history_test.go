package server

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// quietKind is a client of a server on which secrets do not change, but other kinds do.
type quietKind struct {
	kubernetes.Interface
	t       *testing.T
	began   string // resourceVersion of the second of three secrets
	newest  string // resourceVersion of the last secret
	token   string // continues a list after the first secret
	running watch.Interface
}

func newQuietKind(t *testing.T, s *Server) *quietKind {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	q := &quietKind{Interface: client, t: t}
	for i := range 3 {
		o := q.secret(fmt.Sprint("s", i))
		if i == 1 {
			q.began = o.ResourceVersion
		}
		q.newest = o.ResourceVersion
	}
	page, err := q.list(metav1.ListOptions{Limit: 1})
	if err != nil || page.Continue == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	q.token = page.Continue
	if q.running, err = client.CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: q.newest}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.running.Stop)
	return q
}

func (q *quietKind) secret(name string) *corev1.Secret {
	q.t.Helper()
	o, err := q.CoreV1().Secrets("default").Create(q.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		q.t.Fatal(err)
	}
	return o
}

func (q *quietKind) list(o metav1.ListOptions) (*corev1.SecretList, error) {
	return q.CoreV1().Secrets("default").List(q.t.Context(), o)
}

// others writes an object of another kind.
func (q *quietKind) others(ctx context.Context) {
	q.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c"}}
	if _, err := q.CoreV1().ConfigMaps("default").Create(ctx, o, metav1.CreateOptions{}); err != nil {
		q.t.Fatal(err)
	}
}

// expired reports whether the continue token has expired, and checks that exact lists and watches
// agree.
func (q *quietKind) expired() bool {
	q.t.Helper()
	_, err := q.list(metav1.ListOptions{Continue: q.token})
	if err == nil {
		return false
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsResourceExpired(err) || status.Status().Continue == "" {
		q.t.Fatalf("continue token: %v", err)
	}
	rest, err := q.list(metav1.ListOptions{Continue: status.Status().Continue})
	if err != nil || len(rest.Items) != 2 || rest.Items[0].Name != "s1" {
		q.t.Errorf("the inconsistent continue token returns %v, %v", rest, err)
	}
	exact := metav1.ListOptions{ResourceVersion: q.began, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if _, err := q.list(exact); !apierrors.IsResourceExpired(err) {
		q.t.Errorf("exact list: %v", err)
	}
	late, err := q.CoreV1().Secrets("default").Watch(q.t.Context(), metav1.ListOptions{ResourceVersion: q.began})
	if err != nil {
		q.t.Fatal(err)
	}
	defer late.Stop()
	if e := <-late.ResultChan(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		q.t.Errorf("a watch from an expired resourceVersion begins with %+v", e)
	}
	return true
}

// goesOn checks that the watch that was opened at the start still receives events.
func (q *quietKind) goesOn() {
	q.t.Helper()
	q.secret("s3")
	if e := <-q.running.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Secret).Name != "s3" {
		q.t.Errorf("the open watch continues with %+v", e)
	}
}

// TestQuietKindExpires checks that continue tokens, exact lists and watches of a kind without
// writes expire with the common history. An open watch has missed no event, and continues.
func TestQuietKindExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{HistoryAge: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		q := newQuietKind(t, s)
		time.Sleep(time.Minute)
		q.others(t.Context())
		time.Sleep(3 * time.Minute)
		if q.expired() {
			t.Error("the history of the last 4 minutes has expired")
		}
		time.Sleep(2 * time.Minute)
		q.others(t.Context())
		if !q.expired() {
			t.Error("the history of 6 minutes ago has not expired")
		}
		q.goesOn()
	})
}

// TestQuietKindExpiresOnDisk is TestQuietKindExpires with a journal that is compacted while memory
// still holds all of the history.
func TestQuietKindExpiresOnDisk(t *testing.T) {
	s, err := Start(t.Context(), Options{DataDir: t.TempDir(), UnsafeNoFsync: true, HistoryAge: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	q := newQuietKind(t, s)
	for !q.expired() {
		q.others(t.Context())
	}
	q.goesOn()
}
