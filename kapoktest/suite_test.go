package kapoktest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBubbleSuite runs the bodies of specs as a test runner does, each in its own goroutine: all in
// one bubble.
func TestBubbleSuite(t *testing.T) {
	begin := time.Now()
	type key struct{}
	seen := []string{}
	kapoktest.BubbleSuite(t, t, func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
		spec := func(body func(context.Context)) (failure any) {
			ended := make(chan any, 1)
			go func() {
				defer func() { ended <- recover() }()
				around(context.WithValue(context.Background(), key{}, "value"), body)
				seen = append(seen, "returned")
			}()
			return <-ended
		}
		var evening time.Time
		spec(func(ctx context.Context) {
			if ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("context of a body: %v, %v", ctx.Value(key{}), ctx.Err())
			}
			env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made"}})
			env.Go(func(ctx context.Context) error { <-ctx.Done(); return nil })
			time.Sleep(100 * 24 * time.Hour)
			evening = time.Now()
		})
		if failure := spec(func(context.Context) { panic("fails") }); failure != "fails" {
			t.Errorf("a body that panics ends with %v", failure)
		}
		spec(func(ctx context.Context) {
			defer func() { seen = append(seen, "ended") }()
			runtime.Goexit()
		})
		spec(func(context.Context) {
			if !time.Now().Equal(evening) {
				t.Errorf("between two bodies it became %s, from %s", time.Now(), evening)
			}
			if !env.Exists(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made", Namespace: "default"}}) {
				t.Error("a body does not see the objects of another one")
			}
		})
	})
	if got := len(seen); got != 3 || seen[1] != "ended" {
		t.Errorf("how bodies ended: %v", seen)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("100 days took %s", took)
	}
}

// TestBubbleSuiteReportsFailures checks that failures in a body, or in another goroutine, reach the
// runner.
func TestBubbleSuiteReportsFailures(t *testing.T) {
	for _, tc := range []struct {
		name string
		body func(ctx context.Context, env *kapoktest.Env)
		want string
	}{
		{"method", func(ctx context.Context, env *kapoktest.Env) { env.Get(configMap("nothing")) }, "get ConfigMap default/nothing"},
		{"wait", func(ctx context.Context, env *kapoktest.Env) {
			env.WaitFor(ctx, configMap("nothing"), func() bool { return false })
		}, "the object has never existed"},
		{"beside", func(ctx context.Context, env *kapoktest.Env) {
			env.Go(func(context.Context) error { return errors.New("no matches for kind") })
			time.Sleep(time.Second)
		}, "function in Env.Go: no matches for kind"},
		{"wait forever", func(ctx context.Context, env *kapoktest.Env) { <-ctx.Done() }, "ten years have passed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runner := &failing{TB: t}
			kapoktest.BubbleSuite(t, panicking{runner}, func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					around(context.Background(), func(ctx context.Context) { tc.body(ctx, env) })
				}()
				<-ended
			})
			if !strings.Contains(runner.text, tc.want) {
				t.Errorf("the runner gets %q, want %q", runner.text, tc.want)
			}
		})
	}
}

// TestBubbleSuiteContext checks that the context of a body ends with that of the runner, with the
// same cause, and with the body.
func TestBubbleSuiteContext(t *testing.T) {
	kapoktest.BubbleSuite(t, t, func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
		ctx, cancel := context.WithCancelCause(context.Background())
		interrupted := errors.New("interrupted")
		around(ctx, func(ctx context.Context) {
			time.Sleep(365 * 24 * time.Hour)
			cancel(interrupted)
			begin := time.Now()
			<-ctx.Done()
			if context.Cause(ctx) != interrupted || time.Since(begin) > 10*time.Minute {
				t.Errorf("after %s the context ended with: %v", time.Since(begin), context.Cause(ctx))
			}
		})
		around(context.Background(), func(ctx context.Context) {
			env.Go(func(context.Context) error { <-ctx.Done(); return nil })
		})
		around(ctx, func(ctx context.Context) { <-ctx.Done() })
	})
}

// TestBubbleSuiteNests runs a body within a body, and checks the error about a body that runs
// beside one that the runner has abandoned.
func TestBubbleSuiteNests(t *testing.T) {
	seen := ""
	kapoktest.BubbleSuite(t, t, func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
		around(context.Background(), func(ctx context.Context) {
			around(ctx, func(context.Context) { seen += "nested" })
		})
		begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			around(context.Background(), func(context.Context) { close(begun); <-release })
		}()
		<-begun
		func() {
			defer func() { seen += fmt.Sprint(recover()) }()
			around(context.Background(), func(context.Context) {})
		}()
		close(release)
		<-ended
		around(context.Background(), func(context.Context) { seen += ", again" })
	})
	if !strings.HasPrefix(seen, "nestedkapoktest: the previous body") || !strings.HasSuffix(seen, ", again") {
		t.Errorf("got %q", seen)
	}
}
