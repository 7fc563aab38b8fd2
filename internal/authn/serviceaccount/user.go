package serviceaccount

import (
	"github.com/kapok-dev/kapok/internal/authn"
)

// userName returns the user name of an account.
func userName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// newUser returns the user of an account.
func newUser(namespace string, account Ref) *authn.User {
	return &authn.User{
		Name:   userName(namespace, account.Name),
		UID:    account.UID,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, authn.Authenticated},
	}
}

// extra returns the extra attributes of a token's user.
func (k *kubernetes) extra(id string) map[string][]string {
	extra := map[string][]string{}
	set := func(name, value string) {
		if value != "" {
			extra["authentication.kubernetes.io/"+name] = []string{value}
		}
	}
	if id != "" {
		set("credential-id", "JTI="+id)
	}
	if k.Pod != nil && k.Pod.Name != "" && k.Pod.UID != "" {
		set("pod-name", k.Pod.Name)
		set("pod-uid", k.Pod.UID)
	}
	if k.Node != nil && k.Node.Name != "" {
		set("node-name", k.Node.Name)
		set("node-uid", k.Node.UID)
	}
	if len(extra) == 0 {
		return nil
	}
	return extra
}
