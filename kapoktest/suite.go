package kapoktest

import (
	"context"
	"runtime"
	"testing"
)

// BubbleSuite is [Bubble] for a suite of specs, as those of Ginkgo are, whose runner must stay outside of the bubble: it listens to signals,
// and its goroutines do not end. Run calls the runner, and the runner calls around for each thing that it runs; around runs that in the bubble, one
// after another, and returns when it is done, or panics as it does. Between them time stands still.
//
//	func TestControllers(t *testing.T) {
//		RegisterFailHandler(Fail)
//		kapoktest.BubbleSuite(t, func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
//			cfg = env.Config()
//			RunSpecs(t, "Controller Suite", AroundNode(around))
//		}, kapoktest.CRDs("../../config/crd/bases"))
//	}
//
// What a spec starts, such as a manager, must end with the suite: with [Env.Context], or when its clean-up says so and has waited for it. The
// context that a spec gets carries the values of the runner's, but does not end with it: its clock is another.
func BubbleSuite(t *testing.T, run func(env *Env, around func(context.Context, func(context.Context))), opts ...Option) {
	t.Helper()
	bodies := make(chan func()) // made outside, and so who waits for it stops the clock
	envs := make(chan *Env, 1)
	go func() {
		defer close(bodies)
		env, started := <-envs
		if !started {
			return
		}
		run(env, func(ctx context.Context, body func(context.Context)) {
			done := make(chan any)
			bodies <- func() {
				var failure any = ended{}
				defer func() {
					if p := recover(); p != nil {
						failure = p
					}
					done <- failure
				}()
				body(context.WithoutCancel(ctx))
				failure = nil
			}
			switch failure := (<-done).(type) {
			case nil:
			case ended:
				runtime.Goexit()
			default:
				panic(failure)
			}
		})
	}()
	defer close(envs)
	Bubble(t, func(t *testing.T, env *Env) {
		envs <- env
		for body := range bodies {
			finished := make(chan struct{})
			go func() {
				defer close(finished)
				body()
			}()
			<-finished
		}
	}, opts...)
}

// ended is the outcome of a body that has left its goroutine, as t.FailNow does.
type ended struct{}
