package kapoktest_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// typed returns a client of client-go.
func typed(t testing.TB, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestUser checks that a user has the permissions that the test grants, where it grants them, and
// no others.
func TestUser(t *testing.T) {
	env := kapoktest.Start(t)
	for user, tc := range map[string]struct {
		grants   []kapoktest.Grant
		may, not []string // verb group resource[/subresource] namespace name, or verb path
	}{
		"nobody": {nil, nil, []string{"get  configmaps default a"}},
		"jane": {[]kapoktest.Grant{kapoktest.Can("get, list", "configmaps", "deployments.apps/scale"), kapoktest.Can("delete", "configmaps").In("team-a")},
			[]string{"get  configmaps default a", "list  configmaps  ", "get apps deployments/scale default a", "delete  configmaps team-a a"},
			[]string{"watch  configmaps default a", "delete  configmaps default a", "get apps deployments default a", "get apps configmaps default a", "get  deployments/scale default a"}},
		"named":  {[]kapoktest.Grant{kapoktest.Can("update", "secrets").Named("a").In("default")}, []string{"update  secrets default a"}, []string{"update  secrets default b"}},
		"all":    {[]kapoktest.Grant{kapoktest.Can("*", "*")}, []string{"delete x y default a", "delete x y/z  "}, []string{"get /metrics"}},
		"group":  {[]kapoktest.Grant{kapoktest.Can("get", "*.apps")}, []string{"get apps deployments  "}, []string{"get batch jobs  "}},
		"path":   {[]kapoktest.Grant{kapoktest.Can("get", "/metrics", "pods")}, []string{"get /metrics", "get  pods  "}, []string{"post /metrics"}},
		"viewer": {[]kapoktest.Grant{kapoktest.ClusterRole("view").In("default")}, []string{"list  pods default "}, []string{"list  pods team-a ", "create  pods default "}},
		"owner":  {[]kapoktest.Grant{kapoktest.ClusterRole("cluster-admin")}, []string{"delete  nodes  a", "get /x"}, nil},
		"odd:~@": {[]kapoktest.Grant{kapoktest.Can("get", "pods")}, []string{"get  pods  "}, nil},
	} {
		reviews := typed(t, env.User(user, tc.grants...)).AuthorizationV1().SelfSubjectAccessReviews()
		ask := func(question string, want bool) {
			t.Helper()
			var spec authorizationv1.SelfSubjectAccessReviewSpec
			if q := strings.Split(question, " "); len(q) == 2 {
				spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: q[0], Path: q[1]}
			} else {
				resource, sub, _ := strings.Cut(q[2], "/")
				spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: q[0], Group: q[1], Resource: resource, Subresource: sub, Namespace: q[3], Name: q[4]}
			}
			r, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err != nil || r.Status.Allowed != want {
				t.Errorf("%s may %s: want %t, got %v, %v", user, question, want, r.Status, err)
			}
		}
		for _, question := range tc.may {
			ask(question, true)
		}
		for _, question := range tc.not {
			ask(question, false)
		}
	}
}

// TestUsersInParallel checks that users can be created concurrently, as by parallel subtests that
// share an Env.
func TestUsersInParallel(t *testing.T) {
	env := kapoktest.Start(t)
	for round := range 20 {
		var all sync.WaitGroup
		begin := make(chan struct{})
		for n := range 8 {
			all.Go(func() {
				name := fmt.Sprint("u", round, "-", n)
				<-begin
				cms := typed(t, env.User(name, kapoktest.Can("get", "configmaps").Named(name))).CoreV1().ConfigMaps("default")
				if _, err := cms.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		close(begin)
		all.Wait()
	}
}

func TestGrantsThatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		run  func(*kapoktest.Env)
		want string
	}{
		"role that is not there":    {func(e *kapoktest.Env) { e.User("a", kapoktest.ClusterRole("none")) }, `permissions of a: clusterroles.rbac.authorization.k8s.io "none" not found`},
		"path in a namespace":       {func(e *kapoktest.Env) { e.User("a", kapoktest.Can("get", "/x").In("n")) }, "namespaced rules cannot apply to non-resource URLs"},
		"no verb":                   {func(e *kapoktest.Env) { e.User("a", kapoktest.Can("", "pods").In("A")) }, `Namespace "A" is invalid`},
		"account with a bad name":   {func(e *kapoktest.Env) { e.ServiceAccount("default", "A") }, `service account default/A: ServiceAccount "A" is invalid`},
		"token that is short-lived": {func(e *kapoktest.Env) { e.Token("default", "a", time.Minute) }, "may not specify a duration less than 10 minutes"},
	} {
		if text := fails(t, func(t testing.TB) { tc.run(kapoktest.Start(t)) }); !strings.Contains(text, tc.want) {
			t.Errorf("%s: got %q, want %q", name, text, tc.want)
		}
	}
}

// widgetController sets the status of each Widget to ready.
func widgetController(c *rest.Config) func(context.Context) error {
	return func(ctx context.Context) error {
		mgr, err := manager.New(c, manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		err = ctrl.NewControllerManagedBy(mgr).For(widget("")).Complete(ctrl.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			w := widget(r.Name)
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, w); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			before := w.DeepCopy()
			w.Object["status"] = map[string]any{"ready": true}
			return ctrl.Result{}, mgr.GetClient().Status().Patch(ctx, w, client.MergeFrom(before))
		}))
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

func ready(w *unstructured.Unstructured) func() bool {
	return func() bool {
		ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready")
		return ready
	}
}

// TestRightsSuffice runs a controller with the permissions of its manifests, generated from its
// markers, and no others.
func TestRightsSuffice(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Go(widgetController(env.ServiceAccount("system", "controller-manager")))
		w := widget("a")
		env.Create(w)
		env.WaitFor(t.Context(), w, ready(w))
		env.Settle()
		for _, r := range env.Refused() {
			t.Error(r)
		}
		for _, r := range env.Requests() {
			if r.User != "system:serviceaccount:system:controller-manager" {
				t.Errorf("%s is of %q", r, r.User)
			}
		}
	}, kapoktest.CRDs("testdata/crd"), kapoktest.Objects("testdata/rbac"))
}

// TestRightsDoNotSuffice checks that the failure names the marker that is missing.
func TestRightsDoNotSuffice(t *testing.T) {
	for name, tc := range map[string]struct {
		resource string // the resource without permission
		want     string
	}{
		"read":  {"widgets", `widgets.example.com is forbidden: User "system:serviceaccount:system:controller-manager" cannot watch resource "widgets" in API group "example.com" at the cluster scope`},
		"write": {"widgets/status", `widgets.example.com "a" is forbidden: User "system:serviceaccount:system:controller-manager" cannot patch resource "widgets/status" in API group "example.com" in the namespace "default"`},
	} {
		t.Run(name, func(t *testing.T) {
			var text string
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "manager-role"}}
				env.Update(role, func() {
					for i, r := range role.Rules {
						if r.Resources[0] == tc.resource {
							role.Rules[i].Verbs = []string{"get"}
						}
					}
				})
				env.Go(widgetController(env.ServiceAccount("system", "controller-manager")))
				w := widget("a")
				env.Create(w)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				text = fails(t, func(t testing.TB) { kapoktest.WaitForWith(env, t, ctx, w, ready(w)) })
				if refused := env.Refused(); len(refused) < 2 || refused[0].Code != 403 || refused[0].Refusal != tc.want {
					t.Errorf("refused is %v", refused)
				}
			}, kapoktest.CRDs("testdata/crd"), kapoktest.Objects("testdata/rbac"))
			if !strings.Contains(text, "the server denied these requests:\n  ") || !strings.Contains(text, " x "+tc.want+"\n") {
				t.Errorf("the failure says\n%s", text)
			}
		})
	}
}

// TestEditorRole checks that the editor's role of the manifests allows edits where it is bound.
func TestEditorRole(t *testing.T) {
	env := kapoktest.Start(t, kapoktest.CRDs("testdata/crd"), kapoktest.Objects("testdata/rbac"))
	jane, err := client.New(env.User("jane", kapoktest.ClusterRole("widget-editor-role").In("team-a")), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := widget("w")
	w.SetNamespace("team-a")
	if err := jane.Create(t.Context(), w); err != nil {
		t.Error(err)
	}
	if err := jane.Create(t.Context(), widget("w")); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// TestTokensExpire checks that a token expires in virtual time, and that a client that renews its
// token works for a year, also across watches that end.
func TestTokensExpire(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		can := kapoktest.Can("get,list", "configmaps")
		pod := typed(t, env.ServiceAccount("system", "controller", can))
		config := env.Config()
		config.BearerToken = env.Token("system", "controller", time.Hour)
		script := typed(t, config)
		list := func(c *kubernetes.Clientset) error {
			_, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			return err
		}
		for _, c := range []*kubernetes.Clientset{pod, script} {
			if err := list(c); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(59 * time.Minute)
		if err := list(script); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Minute) // a minute longer than its validity, which allows for differing clocks
		if err := list(script); !apierrors.IsUnauthorized(err) {
			t.Errorf("with a token that has expired: %v", err)
		}
		if refused := env.Refused(); len(refused) != 1 || refused[0].Code != 401 || refused[0].User != "system:serviceaccount:system:controller" {
			t.Errorf("refused is %v", refused)
		}
		for range 365 {
			if err := list(pod); err != nil {
				t.Fatalf("after %v: %v", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), err)
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// TestTokenOfAccountThatIsGone checks that a token is invalid without its account, and that there
// is no other one until the account exists again.
func TestTokenOfAccountThatIsGone(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		pod := typed(t, env.ServiceAccount("system", "controller", kapoktest.Can("get", "configmaps").In("default")))
		env.Delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "controller"}})
		for range 2 {
			if _, err := pod.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
				t.Errorf("got %v", err)
			}
			time.Sleep(2 * time.Hour)
		}
		env.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "controller"}})
		if _, err := pod.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("with the account: %v", err)
		}
	})
}

// TestTokensOfMany has many clients of one account, whose token must be renewed, at the same time.
func TestTokensOfMany(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		config := env.ServiceAccount("system", "controller", kapoktest.Can("get", "configmaps"))
		time.Sleep(55 * time.Minute)
		failed := make(chan error)
		for n := range 20 {
			go func() {
				client, err := kubernetes.NewForConfig(config)
				if err == nil {
					_, err = client.CoreV1().ConfigMaps("default").Get(t.Context(), fmt.Sprint(n), metav1.GetOptions{})
				}
				failed <- err
			}()
		}
		for range 20 {
			if err := <-failed; !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
}
