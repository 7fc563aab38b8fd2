package kapoktest_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// counting is a controller whose every reconciliation changes the Widget's status, which causes the
// next one.
func counting(env *kapoktest.Env) func(context.Context) error {
	return func(ctx context.Context) error {
		mgr, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		c, looks := mgr.GetClient(), int64(0)
		err = ctrl.NewControllerManagedBy(mgr).For(widget("")).Complete(ctrl.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			w := widget(r.Name)
			if err := c.Get(ctx, r.NamespacedName, w); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			before := w.DeepCopy()
			looks++
			_ = unstructured.SetNestedField(w.Object, looks, "status", "looks")
			return ctrl.Result{}, c.Status().Patch(ctx, w, client.MergeFrom(before))
		}))
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

// asking sends requests until the test ends, whatever the responses.
func asking(env *kapoktest.Env) func(context.Context) error {
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			_ = env.Client().Get(ctx, client.ObjectKey{Namespace: "default", Name: "w"}, widget("w"))
		}
		return nil
	}
}

// TestTimeThatCannotPass checks that a goroutine that keeps the clock from advancing is reported,
// and that time then advances: waits and sleeps end, and the test.
func TestTimeThatCannotPass(t *testing.T) {
	const often = 200
	settle := func(_ testing.TB, env *kapoktest.Env) { env.Settle() }
	sleep := func(testing.TB, *kapoktest.Env) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
	}
	for _, tc := range []struct {
		name string
		run  func(*kapoktest.Env) func(context.Context) error
		wait func(testing.TB, *kapoktest.Env)
		want string
	}{
		{"settle", counting, settle, "201 x PATCH /apis/example.com/v1/namespaces/default/widgets/w/status"},
		{"wait", counting, func(t testing.TB, env *kapoktest.Env) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			env.WaitFor(ctx, widget("w"), func() bool { return false })
		}, "201 x PATCH /apis/example.com/v1/namespaces/default/widgets/w/status"},
		{"sleep", counting, sleep, "201 x PATCH /apis/example.com/v1/namespaces/default/widgets/w/status"},
		{"no care for errors", asking, settle, "1001 x GET /apis/example.com/v1/namespaces/default/widgets/w"},
		{"no care for errors, sleep", asking, sleep, "1001 x GET /apis/example.com/v1/namespaces/default/widgets/w"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := fails(t, func(tb testing.TB) {
					env := kapoktest.Start(tb, kapoktest.CRDs("testdata/crd"))
					kapoktest.TooOften(env, often)
					env.Go(tc.run(env))
					env.Create(widget("w"))
					tc.wait(tb, env)
				}) + "\n"
				if !strings.Contains(said, "virtual time cannot advance:\n") || !strings.Contains(said, "\n  "+tc.want+"\n") || len(said) > 20_000 {
					t.Errorf("it says, in %d bytes, %.2000q", len(said), said)
				}
			})
		})
	}
}
