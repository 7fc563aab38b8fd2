package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Impersonate returns the user whom the Impersonate headers ask to act as, and the sender where there are none. It
// removes the headers. request describes what the sender wants to do as that user, and is called only if there is one.
// The error is 400 or 403 for what is malformed or not allowed.
//
// There are several ways to be allowed (KEP-5284), see modes: those for one request at a time, and then the one for all.
// The first that allows counts, and its verb is returned as the constraint, for the audit; if none does, the error is that of
// the first that applies.
func Impersonate(ctx context.Context, by Authorizer, sender *User, h http.Header, request func() *Attributes) (u *User, constraint string, err error) {
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
		if !m.applies(sender, wanted) {
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

// impersonated is the user that the headers describe, as they describe him; nil
// if there are none.
func impersonated(h http.Header) (*User, error) {
	u := &User{
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

// A mode is a way to be allowed to act as somebody.
type mode struct {
	// name is "" for the way of old: who may impersonate somebody may do so in all that he does. By the other ways he
	// must be allowed the verb impersonate:NAME on whom he wants to be, and impersonate-on:NAME:VERB on what he wants to do.
	name    string
	applies func(sender, wanted *User) bool
}

// modes are all ways in their order.
var modes = []mode{
	{associatedNode, func(sender, wanted *User) bool { return wanted.onlyNamed() && runsOn(sender, wanted.Name) }},
	{"arbitrary-node", func(_, wanted *User) bool { return wanted.onlyNamed() && isNode(wanted.Name) }},
	{"serviceaccount", func(_, wanted *User) bool { return wanted.onlyNamed() && isServiceAccount(wanted.Name) }},
	{"user-info", func(_, wanted *User) bool { return !isNode(wanted.Name) && !isServiceAccount(wanted.Name) }},
	{"", func(_, _ *User) bool { return true }},
}

// constraint is the verb of a way that is for one request at a time, "" of the one for all.
func (m mode) constraint() string {
	if m.name == "" {
		return ""
	}
	return "impersonate:" + m.name
}

// associatedNode lets a service account act as the node on which its pod runs.
const associatedNode = "associated-node"

// impersonate returns whom the sender of a request becomes, if he may.
func (m mode) impersonate(ctx context.Context, by Authorizer, what *Attributes, wanted *User) (*User, error) {
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
	for _, check := range []func(*User) error{a.name, a.uid, a.groups, a.extra} {
		if err := check(wanted); err != nil {
			return nil, err
		}
	}
	u := *wanted
	u.Groups = a.groupsOf(wanted)
	return &u, nil
}

// An attempt asks for the permissions that one mode takes, one for each thing that the sender wants to be.
type attempt struct {
	mode   mode
	ctx    context.Context
	by     Authorizer
	sender *User
	verb   string
	group  string // the API group of users and groups
}

func (a *attempt) constrained() bool { return a.mode.name != "" }

// ask describes a permission to be something.
func (a *attempt) ask(group, resource, name string) *Attributes {
	return &Attributes{
		User: a.sender, Verb: a.verb, ResourceRequest: true,
		APIGroup: group, APIVersion: "v1", Resource: resource, Name: name,
	}
}

// permit is Check with Kubernetes' words for an authorizer that does not know.
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

func (a *attempt) name(wanted *User) error {
	who := a.ask(a.group, "users", wanted.Name)
	if namespace, name, ok := serviceAccount(wanted.Name); ok {
		who.Resource, who.Namespace, who.Name = "serviceaccounts", namespace, name
	} else if name, ok := node(wanted.Name); ok && a.constrained() {
		who.Resource, who.Name = "nodes", name
	}
	if a.mode.name == associatedNode {
		who.Name = "*" // the permission is for whatever node it is
	}
	return a.permit(who)
}

func (a *attempt) uid(wanted *User) error {
	if wanted.UID == "" {
		return nil
	}
	return a.permit(a.ask(authenticationv1.GroupName, "uids", wanted.UID))
}

// many is from how many permissions on a constrained mode asks first for one of all of them.
const many = 4

func (a *attempt) groups(wanted *User) error {
	if a.constrained() {
		if slices.Contains(wanted.Groups, "") {
			return Forbidden(a.ask(a.group, "groups", ""), "impersonating the empty string group is not allowed")
		}
		if slices.Contains(wanted.Groups, Masters) {
			return Forbidden(a.ask(a.group, "groups", Masters), "impersonating the system:masters group is not allowed")
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

func (a *attempt) extra(wanted *User) error {
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

// checkExtra refuses what the way of old lets pass.
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

// groupsOf adds the groups that somebody has by being who he is.
func (a *attempt) groupsOf(wanted *User) []string {
	groups := slices.Clip(wanted.Groups)
	if namespace, _, ok := serviceAccount(wanted.Name); ok && len(groups) == 0 {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	} else if isNode(wanted.Name) && a.constrained() {
		groups = []string{"system:nodes"}
	}
	if wanted.Name != Anonymous {
		return WithAuthenticated(groups)
	}
	if slices.Contains(groups, Unauthenticated) {
		return groups
	}
	return append(groups, Unauthenticated)
}

// onlyNamed says whether nothing but a name is known of a user.
func (u *User) onlyNamed() bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }

// What Kubernetes tells in a user's extra of the pod for which the token of a service account was issued.
const extraNodeName = "authentication.kubernetes.io/node-name"

// runsOn says whether a sender is the service account of a pod on the node with a user name.
func runsOn(sender *User, user string) bool {
	name, ok := node(user)
	return ok && isServiceAccount(sender.Name) && slices.Equal(sender.Extra[extraNodeName], []string{name})
}

// withoutPlace is a service account wherever its pod runs: authorizers are to decide alike for all its pods.
func withoutPlace(u *User) *User {
	return &User{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{
		"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(u.Extra)),
	}}
}

// node takes the user name of a node apart.
func node(user string) (name string, ok bool) {
	name, ok = strings.CutPrefix(user, "system:node:")
	return name, ok && len(validation.NameIsDNSSubdomain(name, false)) == 0
}

func isNode(user string) bool {
	_, ok := node(user)
	return ok
}

// serviceAccount takes the user name of a service account apart.
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
