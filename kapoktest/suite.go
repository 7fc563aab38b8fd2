package kapoktest

import (
	"context"
	"runtime"
	"testing"
)

// BubbleSuite is [Bubble] for a suite whose runner must stay outside of the bubble, as that of Ginkgo must, which listens to signals and leaves
// goroutines behind. Run calls the runner, and the runner calls around for each thing that it runs: around runs its body in the bubble, and returns
// when it is done, or panics as it does. Between two bodies time stands still.
//
//	func TestControllers(t *testing.T) {
//		RegisterFailHandler(Fail)
//		kapoktest.BubbleSuite(t, GinkgoTB(), func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
//			testEnv = env
//			RunSpecs(t, "Controller Suite", AroundNode(around))
//		}, kapoktest.CRDs("../../config/crd/bases"))
//	}
//
// What fails in a body, or beside it in [Env.Go], is told to the runner's own TB; a runner that has none gets t. What fails beside the suite when no
// body runs fails t.
//
// What a body starts and leaves running, such as a manager, is for [Env.Go]: it must end with the suite. A body gets the values of the runner's context,
// but not its end: deadlines of the runner are on another clock.
func BubbleSuite(t *testing.T, runner testing.TB, run func(env *Env, around func(context.Context, func(context.Context))), opts ...Option) {
	t.Helper()
	bodies := make(chan func()) // made outside of the bubble: while it waits for the next one, time stands still
	begun := make(chan *suite, 1)
	defer close(begun)
	go func() {
		defer close(bodies)
		if s, ok := <-begun; ok {
			run(s.env, s.around)
		}
	}()
	Bubble(t, func(t *testing.T, e *Env) {
		e.t = runner
		begun <- &suite{env: e, test: t, runner: runner, bodies: bodies}
		for body := range bodies {
			done := make(chan struct{})
			go func() { // which the body may end
				defer close(done)
				body()
			}()
			<-done
		}
	}, opts...)
}

// A suite hands bodies into a bubble.
type suite struct {
	env          *Env
	test, runner testing.TB
	bodies       chan<- func()
}

func (s *suite) around(ctx context.Context, body func(context.Context)) {
	runElsewhere(s.bodies, func() {
		s.env.tellTo(s.runner)
		defer s.env.tellTo(s.test)
		body(context.WithoutCancel(ctx))
	})
}

// runElsewhere hands a function to another goroutine, and ends as it does: returns, panics, or ends this goroutine.
func runElsewhere(where chan<- func(), f func()) {
	type outcome struct {
		returned bool
		panicked any
	}
	end := make(chan outcome, 1)
	where <- func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			end <- o
		}()
		f()
		o.returned = true
	}
	switch o := <-end; {
	case o.returned:
	case o.panicked != nil:
		panic(o.panicked)
	default:
		runtime.Goexit()
	}
}
