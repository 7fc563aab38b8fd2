package server

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal/memory"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestServersOnOneStore checks that a server on the store of an earlier one continues with its
// objects, resourceVersions, watches and tokens.
func TestServersOnOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		ctx, options := t.Context(), setup{journals: Journals{Memory: store}}
		open := func() (*Server, kubernetes.Interface) {
			s, err := options.start(ctx)
			if err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(s.Config())
			if err != nil {
				t.Fatal(err)
			}
			return s, client
		}
		s, client := open()
		if _, err := options.start(ctx); err == nil {
			t.Error("two servers share a store")
		}
		cms := client.CoreV1().ConfigMaps("default")
		cm, err := cms.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before := cm.ResourceVersion
		cm.Data = map[string]string{"k": "v"}
		if cm, err = cms.Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until the namespace has its service account
		request, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := func() (objects []string) {
			for _, resource := range []string{"configmaps", "namespaces", "serviceaccounts", "clusterroles", "services"} {
				list := &metav1.PartialObjectMetadataList{}
				path := map[bool]string{true: "/api/v1/", false: "/apis/rbac.authorization.k8s.io/v1/"}[resource != "clusterroles"]
				if err := client.CoreV1().RESTClient().Get().AbsPath(path+resource).SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
					Do(ctx).Into(list); err != nil {
					t.Fatal(resource, err)
				}
				for _, o := range list.Items {
					objects = append(objects, resource+" "+o.Namespace+"/"+o.Name+" "+string(o.UID)+" "+o.ResourceVersion)
				}
			}
			return objects
		}
		want := all()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}

		s, client = open()
		time.Sleep(time.Minute)
		if got := all(); !slices.Equal(got, want) {
			t.Errorf("after a restart, the objects are\n%q\nwant\n%q", got, want)
		}
		review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: request.Status.Token}}, metav1.CreateOptions{})
		if err != nil || !review.Status.Authenticated {
			t.Errorf("token of the earlier server: %+v, %v", review, err)
		}
		w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: before})
		if err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != "MODIFIED" || e.Object.(*corev1.ConfigMap).ResourceVersion != cm.ResourceVersion {
			t.Errorf("a watch from an earlier resourceVersion continues with %+v", e)
		}
		w.Stop()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}

		store.Compact(store.Head())
		s, client = open()
		if w, err = client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: before}); err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			t.Errorf("a watch from a compacted resourceVersion continues with %+v", e)
		}
		w.Stop()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}
