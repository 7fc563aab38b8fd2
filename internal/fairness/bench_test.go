package fairness

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/auth"
)

// BenchmarkEnter is what a request pays that finds a seat free, from its classification until it has left.
func BenchmarkEnter(b *testing.B) {
	account := &auth.User{Name: "system:serviceaccount:shop:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", auth.Authenticated}}
	pod := auth.Attributes{Verb: "get", ResourceRequest: true, APIVersion: "v1", Resource: "pods", Namespace: "shop", Name: "a"}
	for _, tc := range []struct {
		name  string
		user  *auth.User
		edit  func(*auth.Attributes)
		plain bool
	}{
		{name: "plain", user: account, plain: true},
		{name: "exempt", user: auth.Admin()},
		{name: "limited/get", user: account},
		{name: "limited/update", user: account, edit: func(a *auth.Attributes) { a.Verb = "update" }},
		{name: "limited/list", user: account, edit: func(a *auth.Attributes) { a.Verb, a.Name = "list", "" }},
		{name: "limited/last-schema", user: &auth.User{Name: "bob", Groups: []string{auth.Authenticated}}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			l := New(Options{Plain: tc.plain})
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
					b.Fatal("refused")
				}
				p.Leave()
			}
		})
	}
}
