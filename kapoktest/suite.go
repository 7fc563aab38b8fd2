package kapoktest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

// BubbleSuite is [Bubble] for a suite whose runner must stay outside of the bubble, such as Ginkgo,
// which handles signals and leaks goroutines. The function run calls the runner. For each spec or
// hook, the runner calls the function around with a body; around runs the body in the bubble, and
// returns or panics when the body does. The clock stands still between two bodies.
//
//	func TestControllers(t *testing.T) {
//		RegisterFailHandler(Fail)
//		kapoktest.BubbleSuite(t, GinkgoTB(), func(env *kapoktest.Env, around func(context.Context, func(context.Context))) {
//			testEnv = env
//			RunSpecs(t, "Controller Suite", AroundNode(around))
//		}, kapoktest.CRDs("../../config/crd/bases"))
//	}
//
// The parameter runner is the TB of the runner; if it has none, pass t. Failures in a body are
// reported to runner. Failures in a function of [Env.Go] are reported to runner while a body runs,
// and otherwise to t.
//
// Start what outlives a body, such as a manager, with [Env.Go]: it must end with the suite. The
// context of a body has the values of the context that around received. It ends when the body ends,
// or soon after the context that around received has ended. As the latter is bound to real time,
// the virtual clock may advance by a long time while a body waits for it. A body that lasts for ten
// years of virtual time fails, and its context ends.
//
// There is one body at a time. If a body calls around with its own context, the inner body runs as
// part of the outer one. If the runner abandons a body that does not end, as after a timeout, the
// next call of around panics; if around is not called again, the process panics half a minute after
// the runner has ended.
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
	bubble(t, func(t *testing.T, e *Env, w *watchdog) {
		e.t = runner
		begun <- &suite{env: e, test: t, runner: runner, bodies: bodies, free: free}
		for {
			w.away.Store(true) // the runner may be busy outside of the bubble for long
			body, more := <-bodies
			w.away.Store(false)
			if !more {
				return
			}
			done := make(chan struct{})
			go func() { // which the body may end
				defer close(done)
				body()
			}()
			<-done
		}
	}, opts)
}

// A suite passes bodies into a bubble.
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
		panic("kapoktest: the previous body still runs after the runner has left it: it waits for something that does not happen in the bubble")
	}
	ended := ctx.Done() // asked for here: the first call creates the channel
	runElsewhere(s.bodies, func() {
		defer func() { s.free <- struct{}{} }()
		s.env.tellTo(s.runner)
		defer s.env.tellTo(s.test)
		ctx, cancel := s.within(ctx, ended)
		defer cancel(nil)
		body(ctx)
	})
}

// longestBody is the limit of a body in virtual time: a body that waits only for the end of its
// context reaches it in a second or two.
const longestBody = 10 * 365 * 24 * time.Hour

// within returns a context of the bubble with the values of one outside, which ends soon after
// that. An end outside wakes no goroutine in a bubble, and a wait for it there stops the clock: the
// context is polled.
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
		err := errors.New("ten years have passed in the bubble, and the body still runs: it waits for something that does not happen")
		s.env.tell(err)
		cancel(err)
	}()
	return ctx, cancel
}

// end panics if a body still runs when the runner has ended: the bubble would wait for it without a
// message.
func (s *suite) end() {
	select {
	case <-s.free:
	case <-time.After(patience):
		panic("kapoktest: the runner has ended, and a body still runs: it waits for something that does not happen in the bubble")
	}
}

// runElsewhere runs a function in another goroutine, and ends as it does: it returns, panics, or
// ends the calling goroutine.
func runElsewhere(where chan<- func(), f func()) {
	end := make(chan conclusion, 1)
	where <- func() {
		var e conclusion
		defer func() { end <- e }()
		e.of(f)
	}
	e := <-end
	e.again()
}

// A conclusion records how a function ended.
type conclusion struct {
	returned bool
	panicked any
}

// of runs a function, and records how it ends. A function may end the goroutine.
func (e *conclusion) of(f func()) {
	defer func() { e.panicked = recover() }()
	f()
	e.returned = true
}

// again ends as the function did: it returns, panics, or ends the goroutine.
func (e *conclusion) again() {
	switch {
	case e.returned:
	case e.panicked != nil:
		panic(e.panicked)
	default:
		runtime.Goexit()
	}
}
