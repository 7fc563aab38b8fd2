package kapoktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// A Grant is a permission: see [Can] and [ClusterRole].
type Grant struct {
	rules       []rbacv1.PolicyRule
	clusterRole string // instead of rules
	namespace   string // "" for all
}

// Can grants the given verbs, such as "get,list,watch" or "*", on resources, such as "configmaps",
// "deployments.apps", "foos.example.com/status". "*" is every resource, "*.apps" every resource of
// a group; a name that begins with / is a path. The grant holds in all namespaces, unless In
// restricts it.
func Can(verbs string, resources ...string) Grant {
	var g Grant
	for _, r := range resources {
		rule := rbacv1.PolicyRule{Verbs: strings.Split(strings.ReplaceAll(verbs, " ", ""), ",")}
		if strings.HasPrefix(r, "/") {
			rule.NonResourceURLs = []string{r}
		} else {
			name, subresource, isSub := strings.Cut(r, "/")
			name, group, _ := strings.Cut(name, ".")
			if r == "*" {
				group = "*"
			}
			if isSub {
				name += "/" + subresource
			}
			rule.APIGroups, rule.Resources = []string{group}, []string{name}
		}
		g.rules = append(g.rules, rule)
	}
	return g
}

// ClusterRole grants the rules of a ClusterRole on the server: one of the manifests, or a default
// one such as view and edit.
func ClusterRole(name string) Grant { return Grant{clusterRole: name} }

// In restricts the Grant to one namespace.
func (g Grant) In(namespace string) Grant {
	g.namespace = namespace
	return g
}

// Named restricts the Grant to objects with the given names. It has no effect on a ClusterRole.
func (g Grant) Named(names ...string) Grant {
	g.rules = slices.Clone(g.rules)
	for i := range g.rules {
		g.rules[i].ResourceNames = names
	}
	return g
}

// User grants rights to a user, in addition to the roles and bindings of the server, and returns a
// configuration for clients of that user.
func (e *Env) User(name string, grants ...Grant) *rest.Config {
	e.t.Helper()
	config := e.As(name)
	e.grant(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, grants)
	return config
}

// ServiceAccount grants rights to a service account, in addition to the roles and bindings of the
// server, and returns a configuration for its clients. It creates the account and its namespace if
// necessary. Clients use a token of the account, which is valid for one hour and rotated before it
// expires, as in a pod.
func (e *Env) ServiceAccount(namespace, name string, grants ...Grant) *rest.Config {
	e.t.Helper()
	e.account(namespace, name)
	e.grant(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, grants)
	tokens := &tokens{request: func(ctx context.Context) (*authenticationv1.TokenRequest, error) {
		return e.requestToken(ctx, namespace, name, time.Hour)
	}}
	if _, err := tokens.get(e.ctx); err != nil {
		e.t.Fatalf("token of the service account %s/%s: %v", namespace, name, err)
	}
	c := e.Config()
	c.Wrap(tokens.wrap)
	return c
}

// Token returns a token of a service account for rest.Config.BearerToken, and creates the account
// if necessary. The token is valid for lifetime, which must be at least ten minutes, and for up to
// one minute more because of clock skew; it is not rotated.
func (e *Env) Token(namespace, name string, lifetime time.Duration) string {
	e.t.Helper()
	e.account(namespace, name)
	r, err := e.requestToken(e.ctx, namespace, name, lifetime)
	if err != nil {
		e.t.Fatalf("token of the service account %s/%s: %v", namespace, name, err)
	}
	return r.Status.Token
}

func (e *Env) requestToken(ctx context.Context, namespace, name string, lifetime time.Duration) (*authenticationv1.TokenRequest, error) {
	core, err := corev1client.NewForConfig(e.own())
	if err != nil {
		return nil, err
	}
	spec := authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime.Seconds()))}
	return core.ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
}

// account creates a service account if it does not exist.
func (e *Env) account(namespace, name string) {
	e.t.Helper()
	core, err := corev1client.NewForConfig(e.own())
	if err == nil {
		err = e.ensureNamespace(namespace)
	}
	if err == nil {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err = core.ServiceAccounts(namespace).Create(e.ctx, account, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatalf("service account %s/%s: %v", namespace, name, err)
	}
}

// ensureNamespace creates a namespace if it does not exist.
func (e *Env) ensureNamespace(name string) error {
	core, err := corev1client.NewForConfig(e.own())
	if err != nil {
		return err
	}
	_, err = core.Namespaces().Create(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// grant creates roles and bindings for grants.
func (e *Env) grant(to rbacv1.Subject, grants []Grant) {
	e.t.Helper()
	for _, g := range grants {
		if err := e.bind(to, g, fmt.Sprintf("kapoktest-%d", e.granted.Add(1))); err != nil {
			e.t.Fatalf("permissions of %s: %v", to.Name, err)
		}
	}
}

// bind creates a binding, and a role if it does not exist.
func (e *Env) bind(to rbacv1.Subject, g Grant, name string) error {
	ctx, meta := e.ctx, metav1.ObjectMeta{Name: name}
	rbac, err := rbacv1client.NewForConfig(e.own())
	if err != nil {
		return err
	}
	if g.namespace != "" {
		if err := e.ensureNamespace(g.namespace); err != nil {
			return err
		}
	}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	switch {
	case g.clusterRole != "":
		role.Name = g.clusterRole
		// Kubernetes accepts a binding to a role that does not exist.
		_, err = rbac.ClusterRoles().Get(ctx, role.Name, metav1.GetOptions{})
	case g.namespace != "":
		role.Kind = "Role"
		_, err = rbac.Roles(g.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: g.rules}, metav1.CreateOptions{})
	default:
		_, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: g.rules}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	subjects := []rbacv1.Subject{to}
	if g.namespace != "" {
		_, err = rbac.RoleBindings(g.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
	}
	return err
}
