package kapoktest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
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
// What a body starts and leaves running, such as a manager, is for [Env.Go]: it must end with the suite. A body gets a context with the values of the
// runner's, which ends with the body, or when the runner's ends: that is on the clock outside, and until then time passes in the bubble. A body that
// lasts for ten years of the bubble fails, and its context ends.
//
// There is one body at a time. Who calls around in a body, with its context, has that run in place. When the runner leaves a body that does not
// end, the next call of around panics, and so does BubbleSuite, half a minute after the end of the runner.
func BubbleSuite(t *testing.T, runner testing.TB, run func(env *Env, around func(context.Context, func(context.Context))), opts ...Option) {
	t.Helper()
	bodies := make(chan func()) // made outside of the bubble: while it waits for the next one, time stands still
	free := make(chan struct{}, 1)
	free <- struct{}{}
	begun := make(chan *suite, 1)
	defer close(begun)
	go func() {
		defer close(bodies)
		if s, ok := <-begun; ok {
			defer s.end()
			run(s.env, s.around)
		}
	}()
	Bubble(t, func(t *testing.T, e *Env) {
		e.t = runner
		begun <- &suite{env: e, test: t, runner: runner, bodies: bodies, free: free}
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
	free         chan struct{} // has something in it when no body runs
}

// bodyOf is the key of the suite in the context of a body.
type bodyOf struct{}

func (s *suite) around(ctx context.Context, body func(context.Context)) {
	if ctx.Value(bodyOf{}) == s {
		body(ctx)
		return
	}
	select {
	case <-s.free:
	default:
		panic("kapoktest: the body before, which the runner has left, still runs: what it waits for does not happen in the bubble")
	}
	ended := ctx.Done() // asked for here: who is the first to ask makes the channel
	runElsewhere(s.bodies, func() {
		defer func() { s.free <- struct{}{} }()
		s.env.tellTo(s.runner)
		defer s.env.tellTo(s.test)
		ctx, cancel := s.within(ctx, ended)
		defer cancel(nil)
		body(ctx)
	})
}

// longestBody is how long a body may last: one that waits for nothing but the end of its context is there in a second or two.
const longestBody = 10 * 365 * 24 * time.Hour

// within returns a context of the bubble with the values of one outside, which ends soon after that. An end outside wakes nobody in a bubble, and who
// waits for it there stops the clock: somebody has to look, again and again.
func (s *suite) within(outside context.Context, ended <-chan struct{}) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(outside), bodyOf{}, s))
	go func() {
		for begin := time.Now(); time.Since(begin) < longestBody; {
			select {
			case <-ended:
				cancel(context.Cause(outside))
				return
			default:
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(max(time.Second, time.Since(begin)/8), 10*time.Minute)):
			}
		}
		err := errors.New("ten years have passed in the bubble, and the body has not ended: what it waits for does not happen")
		s.env.tell(err)
		cancel(err)
	}()
	return ctx, cancel
}

// end ends the process if a body still runs when the runner is done: the bubble would wait for it without a word.
func (s *suite) end() {
	select {
	case <-s.free:
	case <-time.After(patience):
		panic("kapoktest: the runner is done, but has left a body that still runs: what it waits for does not happen in the bubble")
	}
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
