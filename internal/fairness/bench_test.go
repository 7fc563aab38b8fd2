package fairness

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
)

// BenchmarkEnter measures the overhead of a request that finds a free seat, from its classification
// until it leaves.
func BenchmarkEnter(b *testing.B) {
	account := &authn.User{Name: "system:serviceaccount:shop:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", authn.Authenticated}}
	pod := authz.Attributes{Verb: "get", ResourceRequest: true, APIVersion: "v1", Resource: "pods", Namespace: "shop", Name: "a"}
	for _, tc := range []struct {
		name  string
		user  *authn.User
		edit  func(*authz.Attributes)
		plain bool
	}{
		{name: "plain", user: account, plain: true},
		{name: "exempt", user: authn.Admin()},
		{name: "limited/get", user: account},
		{name: "limited/update", user: account, edit: func(a *authz.Attributes) { a.Verb = "update" }},
		{name: "limited/list", user: account, edit: func(a *authz.Attributes) { a.Verb, a.Name = "list", "" }},
		{name: "limited/last-schema", user: &authn.User{Name: "bob", Groups: []string{authn.Authenticated}}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			l := New(Config{Options: Options{Unfair: tc.plain}})
			defer l.Close()
			a := pod
			a.User = tc.user
			if tc.edit != nil {
				tc.edit(&a)
			}
			r := &Request{Attributes: &a, Query: "limit=500&resourceVersion=0", Reads: true}
			b.ReportAllocs()
			for b.Loop() {
				p, refused := l.Enter(b.Context(), r)
				if refused > 0 {
					b.Fatal("rejected")
				}
				p.Leave()
			}
		})
	}
}
