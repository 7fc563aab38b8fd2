package rbac_test

import (
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/authz/rbac"
)

// TestConcurrent authorizes requests while roles are written: a permission that always exists is
// allowed at all times, and one that never exists is not.
func TestConcurrent(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	w.role("", "r", rule("get", "", "pods"))
	w.bind("", "b", clusterRole("r"), user("jane"))
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for verb, want := range map[string]authz.Decision{"get": authz.Allow, "delete": authz.NoOpinion} {
					a := &authz.Attributes{User: &authn.User{Name: "jane"}, ResourceRequest: true, Verb: verb, Resource: "pods"}
					if d, _, _ := by.Authorize(t.Context(), a); d != want {
						t.Errorf("%s: %v, want %v", verb, d, want)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		w.role("", "r", rule("get", "", "pods"), rule([]string{"list", "watch"}[i%2], "", "pods"))
		w.role("x", "other", rule("delete", "", "pods"))
	}
	close(stop)
	asking.Wait()
}
