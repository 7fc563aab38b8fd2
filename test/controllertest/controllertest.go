// Package controllertest helps to test the built-in controllers in a kapoktest.Env.
package controllertest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Run runs controllers against the server of env, with its faults.
func Run(t testing.TB, env *kapoktest.Env, names ...string) { run(t, env, env.Config(), names) }

// RunReadOnly runs controllers as a user who may write nothing but events.
func RunReadOnly(t testing.TB, env *kapoktest.Env, names ...string) {
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"*"}},
	}}
	role.Name = "reader"
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}},
	}
	binding.Name = "reader"
	env.Create(role, binding)
	run(t, env, env.As("reader"), names)
}

func run(t testing.TB, env *kapoktest.Env, cfg *rest.Config, names []string) {
	t.Helper()
	o := controllers.Options{Names: names}
	o.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

// Writes returns the number of writes of controllers in a time, without those of events. Writes
// that are refused count.
func Writes(env *kapoktest.Env, in time.Duration) (n int) {
	from := time.Now()
	time.Sleep(in)
	for _, r := range env.Writes() {
		if r.UserAgent == controllers.UserAgent && r.Time.After(from) && !strings.HasSuffix(r.Path, "/events") && !strings.Contains(r.Path, "/events/") {
			n++
		}
	}
	return n
}

// Watch calls note with each change of the objects of lists in the default namespace, as a client
// that no faults reach. Changes of one list are noted in their order, those of several at the same
// time. The returned function ends the watches, and waits until note has returned.
func Watch(t testing.TB, env *kapoktest.Env, note func(watch.Event), lists ...client.ObjectList) (stop func()) {
	t.Helper()
	c, err := client.NewWithWatch(env.Server().Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	for _, list := range lists {
		w, err := c.Watch(ctx, list, client.InNamespace("default"))
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		watches.Go(func() {
			for event := range w.ResultChan() {
				note(event)
			}
		})
	}
	return func() {
		cancel()
		watches.Wait()
	}
}
