package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestAccess follows a user from nothing to a role, and back.
func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		admin, jane := kubernetes.NewForConfigOrDie(server.Config()), clientOf(server, "jane")
		list := func() error {
			_, err := jane.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			return err
		}
		if err := list(); !apierrors.IsForbidden(err) {
			t.Fatalf("jane lists config maps without a role: %v", err)
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "jane"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
		}
		if _, err := jane.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("jane gives herself a role: %v", err)
		}
		if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := list(); err != nil {
			t.Errorf("jane has a role: %v", err)
		}
		review, err := jane.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "list", Resource: "configmaps",
			}},
		}, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed || !strings.Contains(review.Status.Reason, `RoleBinding "jane/default"`) {
			t.Errorf("review of jane's access: %+v, %v", review, err)
		}
		if err := admin.RbacV1().RoleBindings("default").Delete(ctx, "jane", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := list(); !apierrors.IsForbidden(err) {
			t.Errorf("jane keeps the permissions of a deleted role: %v", err)
		}
	})
}

// TestAdminIsNeverLockedOut deletes the admin's binding.
func TestAdminIsNeverLockedOut(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	admin := kubernetes.NewForConfigOrDie(server.Config())
	if err := admin.RbacV1().ClusterRoleBindings().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestAlwaysAllow checks that all authenticated users are allowed everything, and unauthenticated
// ones nothing.
func TestAlwaysAllow(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Access: kapok.AccessOptions{Modes: []string{"AlwaysAllow"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	if _, err := clientOf(server, "jane").CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("jane: %v", err)
	}
	_, err = clientOf(server, "system:anonymous").CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("an unauthenticated user lists secrets: %v", err)
	}
}

func TestBadAccessOptions(t *testing.T) {
	for _, o := range []kapok.AccessOptions{
		{Modes: []string{"ABAC"}}, {Modes: []string{"nonsense"}}, {ConfigFile: "/nowhere/at/all"}, {WebhookConfigFile: "/nowhere/at/all"},
	} {
		server, err := kapok.Start(t.Context(), kapok.Options{Access: o})
		if err == nil {
			server.Stop()
			t.Errorf("%+v is accepted", o)
		}
	}
}
