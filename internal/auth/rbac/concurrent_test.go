package rbac_test

import (
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/rbac"
)

// TestConcurrent asks while roles are written: what a user had and has is allowed all the time, what he never had never.
func TestConcurrent(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	defer by.Close()
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
				for verb, want := range map[string]auth.Decision{"get": auth.Allow, "delete": auth.NoOpinion} {
					a := &auth.Attributes{User: &auth.User{Name: "jane"}, ResourceRequest: true, Verb: verb, Resource: "pods"}
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
