package kapok_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// give gives a user what rules allow, in all of the cluster.
func give(t *testing.T, server *kapok.Server, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	admin := kubernetes.NewForConfigOrDie(server.Config()).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := admin.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if _, err := admin.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestCreateByAnotherVerb: who may update and patch but not create, creates nothing by an update or by applying.
func TestCreateByAnotherVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		change := []string{"update", "patch"}
		give(t, server, "jane",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: change},
			rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: change})
		give(t, server, "john",
			rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: append(change, "create"), ResourceNames: []string{"a"}})
		put := func(user, name string, dryRun ...string) error {
			body := `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "` + name + `"}}`
			r := clientOf(server, user).CoordinationV1().RESTClient().Put().Namespace("default").Resource("leases").Name(name).Body([]byte(body))
			for _, value := range dryRun {
				r.Param("dryRun", value)
			}
			return r.Do(ctx).Error()
		}
		apply := func(user, resource, kind, apiVersion, name string) error {
			client := clientOf(server, user)
			by := client.CoreV1().RESTClient()
			if resource == "leases" {
				by = client.CoordinationV1().RESTClient()
			}
			return by.Patch(types.ApplyPatchType).Namespace("default").Resource(resource).Name(name).Param("fieldManager", "x").
				Body([]byte(`{"apiVersion": "` + apiVersion + `", "kind": "` + kind + `", "metadata": {"name": "` + name + `"}}`)).Do(ctx).Error()
		}
		for _, tc := range []struct {
			name string
			err  error
			want string // "" for what is allowed
		}{
			{"update", put("jane", "a"), `leases.coordination.k8s.io "a" is forbidden: User "jane" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default"`},
			{"dry run", put("jane", "a", "All"), `User "jane" cannot create resource "leases"`},
			{"apply", apply("jane", "configmaps", "ConfigMap", "v1", "a"), `configmaps "a" is forbidden: User "jane" cannot create resource "configmaps" in API group "" in the namespace "default"`},
			{"another name", put("john", "b"), `User "john" cannot update resource "leases"`},
			{"this name", put("john", "a"), ""},
			{"apply to what is there", apply("jane", "leases", "Lease", "coordination.k8s.io/v1", "a"), ""},
		} {
			if tc.want == "" {
				if tc.err != nil {
					t.Errorf("%s: %v", tc.name, tc.err)
				}
			} else if !apierrors.IsForbidden(tc.err) || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("%s: got %v\nwant %s", tc.name, tc.err, tc.want)
			}
		}
	})
}

// TestSubresourcesOfNothing: a right to a subresource is none to the collection, by leaving out the name of the object.
func TestSubresourcesOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		all := []string{"*"}
		give(t, server, "jane", rbacv1.PolicyRule{APIGroups: all, Resources: []string{"*/scale", "*/status", "*/log", "*/x"}, Verbs: all})
		config := server.Config()
		config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
		client, err := rest.HTTPClientFor(config) // clients of Kubernetes clean paths
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{
			"/api/v1/secrets//scale":                                           404,
			"/api/v1/secrets//x":                                               404,
			"/api/v1/pods//log":                                                404,
			"/api/v1/pods//status":                                             404,
			"/api/v1/watch/pods//status":                                       404,
			"/api/v1/namespaces/default/secrets//x":                            404,
			"/api/v1/namespaces/default/pods//status":                          400,
			"/api/v1/namespaces/default/pods//status?watch=1&timeoutSeconds=1": 400,
			"/api/v1/watch/namespaces/default/pods//status":                    404,
			"/api/v1/namespaces//status":                                       400,
			"/api/v1/nodes//status":                                            400,
			"/apis/apps/v1/deployments//scale":                                 404,
			"/apis/apps/v1/namespaces/default/deployments//scale":              400,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions//status":  400,
		} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != want {
				t.Errorf("%s: %s, want %d", path, answer.Status, want)
			}
			answer.Body.Close()
		}
	})
}
