package serviceaccount

import (
	"github.com/kapok-dev/kapok/internal/auth"
)

// userName is the name that an account has as a user.
func userName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// newUser is an account as a user.
func newUser(namespace string, account Ref) *auth.User {
	return &auth.User{
		Name:   userName(namespace, account.Name),
		UID:    account.UID,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, auth.Authenticated},
	}
}

// extra is what a token says beyond whose it is.
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
