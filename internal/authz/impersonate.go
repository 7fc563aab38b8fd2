package authz

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Impersonate returns the user in the Impersonate headers, or the sender if there are none. It
// removes the headers. request returns the attributes of the request, and is called only if there
// are headers. The error is 400 for invalid headers, and 403 for an impersonation that is not
// allowed.
//
// There are several modes (KEP-5284): constrained ones, which permit single kinds of requests, and
// then the original one, which permits all. The first mode that allows the impersonation decides,
// and its verb is returned as the constraint, for the audit log. If none does, the error is that of
// the first mode that applies. Without constrained, there is only the original mode.
func Impersonate(ctx context.Context, by Authorizer, sender *authn.User, h http.Header, constrained bool, request func() *Attributes) (u *authn.User, constraint string, err error) {
	wanted, err := impersonated(h)
	if err != nil {
		return nil, "", err
	}
	if wanted == nil {
		return sender, "", nil
	}
	what := *request()
	what.User = sender
	var refusal error
	for _, m := range modes {
		if !constrained && m.name != "" || !m.applies(sender, wanted) {
			continue
		}
		u, err := m.impersonate(ctx, by, &what, wanted)
		if err == nil {
			return u, m.constraint(), nil
		}
		if refusal == nil {
			refusal = err
		}
	}
	return nil, "", refusal
}

// impersonated returns the user in the headers, without derived groups; nil if there are none.
func impersonated(h http.Header) (*authn.User, error) {
	u := &authn.User{
		Name:   h.Get(authenticationv1.ImpersonateUserHeader),
		UID:    h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(h[authenticationv1.ImpersonateGroupHeader]),
	}
	var others []string
	for name, values := range h {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		others = append(others, name)
		key = strings.ToLower(key)
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = append(u.Extra[key], values...)
	}
	if u.Name == "" {
		if u.UID != "" || len(u.Groups) > 0 || len(u.Extra) > 0 {
			// Kubernetes prints its own type here.
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"requested &user.DefaultInfo{Name:\"\", UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name",
				u.UID, u.Groups, u.Extra))
		}
		return nil, nil
	}
	h.Del(authenticationv1.ImpersonateUserHeader)
	h.Del(authenticationv1.ImpersonateUIDHeader)
	h.Del(authenticationv1.ImpersonateGroupHeader)
	for _, name := range others {
		h.Del(name)
	}
	return u, nil
}

// A mode is a way to permit impersonation.
type mode struct {
	// name is "" for the original way: a user who may impersonate another may do so in all
	// requests. The other ways require the verb impersonate:NAME on the impersonated user, and
	// impersonate-on:NAME:VERB on the requested resource.
	name    string
	applies func(sender, wanted *authn.User) bool
}

// modes are all modes in their order.
var modes = []mode{
	{associatedNode, func(sender, wanted *authn.User) bool { return onlyNamed(wanted) && runsOn(sender, wanted.Name) }},
	{"arbitrary-node", func(_, wanted *authn.User) bool { return onlyNamed(wanted) && isNode(wanted.Name) }},
	{"serviceaccount", func(_, wanted *authn.User) bool { return onlyNamed(wanted) && isServiceAccount(wanted.Name) }},
	{"user-info", func(_, wanted *authn.User) bool { return !isNode(wanted.Name) && !isServiceAccount(wanted.Name) }},
	{"", func(_, _ *authn.User) bool { return true }},
}

// constraint returns the verb of a constrained mode; "" for the original one.
func (m mode) constraint() string {
	if m.name == "" {
		return ""
	}
	return "impersonate:" + m.name
}

// associatedNode is the mode in which a service account acts as the node that its pod runs on.
const associatedNode = "associated-node"

// impersonate returns the impersonated user of a request, if the sender has the permission.
func (m mode) impersonate(ctx context.Context, by Authorizer, what *Attributes, wanted *authn.User) (*authn.User, error) {
	a := attempt{ctx: ctx, by: by, mode: m, sender: what.User, verb: "impersonate"}
	if a.constrained() {
		a.verb = m.constraint()
		a.group = authenticationv1.GroupName
		if m.name == associatedNode {
			a.sender = withoutPlace(a.sender)
		}
		on := *what
		on.User, on.Verb = a.sender, "impersonate-on:"+m.name+":"+what.Verb
		if err := a.permit(&on); err != nil {
			return nil, err
		}
	}
	for _, check := range []func(*authn.User) error{a.name, a.uid, a.groups, a.extra} {
		if err := check(wanted); err != nil {
			return nil, err
		}
	}
	u := *wanted
	u.Groups = a.groupsOf(wanted)
	return &u, nil
}

// An attempt checks the permissions that one mode requires, one for each part of the impersonated
// user.
type attempt struct {
	mode   mode
	ctx    context.Context
	by     Authorizer
	sender *authn.User
	verb   string
	group  string // the API group of users and groups
}

func (a *attempt) constrained() bool { return a.mode.name != "" }

// ask returns the attributes of a permission.
func (a *attempt) ask(group, resource, name string) *Attributes {
	return &Attributes{
		User: a.sender, Verb: a.verb, ResourceRequest: true,
		APIGroup: group, APIVersion: "v1", Resource: resource, Name: name,
	}
}

// permit is Check with Kubernetes' message for errors of the authorizer.
func (a *attempt) permit(what *Attributes) error {
	d, reason, err := a.by.Authorize(a.ctx, what)
	switch {
	case d == Allow:
		return nil
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return Forbidden(what, reason)
}

func (a *attempt) name(wanted *authn.User) error {
	who := a.ask(a.group, "users", wanted.Name)
	if namespace, name, ok := serviceAccount(wanted.Name); ok {
		who.Resource, who.Namespace, who.Name = "serviceaccounts", namespace, name
	} else if name, ok := node(wanted.Name); ok && a.constrained() {
		who.Resource, who.Name = "nodes", name
	}
	if a.mode.name == associatedNode {
		who.Name = "*" // the permission is for any node
	}
	return a.permit(who)
}

func (a *attempt) uid(wanted *authn.User) error {
	if wanted.UID == "" {
		return nil
	}
	return a.permit(a.ask(authenticationv1.GroupName, "uids", wanted.UID))
}

// many is the number of groups or extra values from which a constrained mode first checks the
// permission for "*".
const many = 4

func (a *attempt) groups(wanted *authn.User) error {
	if a.constrained() {
		if slices.Contains(wanted.Groups, "") {
			return Forbidden(a.ask(a.group, "groups", ""), "impersonating the empty string group is not allowed")
		}
		if slices.Contains(wanted.Groups, authn.Masters) {
			return Forbidden(a.ask(a.group, "groups", authn.Masters), "impersonating the system:masters group is not allowed")
		}
		if len(wanted.Groups) >= many && a.permit(a.ask(a.group, "groups", "*")) == nil {
			return nil
		}
	}
	for _, name := range wanted.Groups {
		if err := a.permit(a.ask(a.group, "groups", name)); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) extra(wanted *authn.User) error {
	var asked []*Attributes
	for _, key := range slices.Sorted(maps.Keys(wanted.Extra)) {
		for _, value := range wanted.Extra[key] {
			one := a.ask(authenticationv1.GroupName, "userextras", value)
			one.Subresource = key
			asked = append(asked, one)
		}
	}
	if a.constrained() {
		if err := checkExtra(wanted.Extra); err != nil {
			return Forbidden(a.ask(authenticationv1.GroupName, "userextras", ""), err.Error())
		}
		if len(asked) >= many {
			all := a.ask(authenticationv1.GroupName, "userextras", "*")
			all.Subresource = "*"
			if a.permit(all) == nil {
				return nil
			}
		}
	}
	for _, one := range asked {
		if err := a.permit(one); err != nil {
			return err
		}
	}
	return nil
}

// checkExtra rejects keys and values that the original mode accepts.
func checkExtra(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		switch values := extra[key]; {
		case key != strings.ToLower(key):
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		case len(values) == 0:
			return errors.New("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// groupsOf returns the groups of a user, with those that its name implies.
func (a *attempt) groupsOf(wanted *authn.User) []string {
	groups := slices.Clip(wanted.Groups)
	if namespace, _, ok := serviceAccount(wanted.Name); ok && len(groups) == 0 {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	} else if isNode(wanted.Name) && a.constrained() {
		groups = []string{"system:nodes"}
	}
	if wanted.Name != authn.Anonymous {
		return authn.WithAuthenticated(groups)
	}
	if slices.Contains(groups, authn.Unauthenticated) {
		return groups
	}
	return append(groups, authn.Unauthenticated)
}

// onlyNamed reports whether a user has no properties except a name.
func onlyNamed(u *authn.User) bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }

// extraNodeName is the key of a user's extra with the node of the pod that a service account token
// is bound to.
const extraNodeName = "authentication.kubernetes.io/node-name"

// runsOn reports whether a sender is the service account of a pod on the node with the given user
// name.
func runsOn(sender *authn.User, user string) bool {
	name, ok := node(user)
	return ok && isServiceAccount(sender.Name) && slices.Equal(sender.Extra[extraNodeName], []string{name})
}

// withoutPlace returns a service account without the properties of its pod, so that the decision is
// the same for all its pods.
func withoutPlace(u *authn.User) *authn.User {
	return &authn.User{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{
		"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(u.Extra)),
	}}
}

// node returns the name of the node with a user name.
func node(user string) (name string, ok bool) {
	name, ok = strings.CutPrefix(user, "system:node:")
	return name, ok && len(validation.NameIsDNSSubdomain(name, false)) == 0
}

func isNode(user string) bool {
	_, ok := node(user)
	return ok
}

// serviceAccount returns the namespace and the name of the service account with a user name.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok || strings.Contains(name, ":") ||
		len(validation.ValidateNamespaceName(namespace, false)) > 0 ||
		len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return "", "", false
	}
	return namespace, name, true
}

func isServiceAccount(user string) bool {
	_, _, ok := serviceAccount(user)
	return ok
}
