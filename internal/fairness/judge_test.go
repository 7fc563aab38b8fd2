package fairness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"

	gocmp "github.com/google/go-cmp/cmp"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// A load is a request of a scenario.
type load struct {
	at     time.Duration
	hash   uint64
	work   Work
	served time.Duration
	gives  time.Duration // gives up after; 0: never
}

// A timetable has the times at which something happens. There is one event at a time: of two, the
// order would be that of goroutines, which is random.
type timetable struct {
	mu    sync.Mutex
	taken map[time.Duration]bool
}

// apart returns a duration from a time on, at whose end nothing else happens, nor that much later.
// It is the given one or slightly more.
func (x *timetable) apart(from, lasts, later time.Duration) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.taken[from+lasts] || x.taken[from+lasts+later] {
		lasts++
	}
	x.taken[from+lasts], x.taken[from+lasts+later] = true, true
	return lasts
}

// TestQueuesAsKubernetes sends the same requests to a level and to a queue set of Kubernetes, and
// checks that the same ones begin, at the same times, and that the same ones are rejected.
func TestQueuesAsKubernetes(t *testing.T) {
	first := seeds.Of(t)
	for i := range uint64(60) {
		seed := first + i
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			s := settings{queues: 1 + r.IntN(16), queueLength: 1 + r.IntN(12)}
			s.handSize = 1 + r.IntN(min(s.queues, 4))
			limit := 1 + r.IntN(10)
			if r.IntN(8) == 0 {
				s = settings{}
			}
			var loads []load
			flows := 1 + r.IntN(8)
			wide := r.IntN(2) == 0 // when a wide request gives up, requests in Kubernetes wait longer than necessary
			at := time.Duration(0)
			for range 50 + r.IntN(250) {
				at += time.Duration(1 + r.IntN(5_000_000))
				l := load{at: at, hash: rand.New(rand.NewPCG(uint64(r.IntN(flows)), 1)).Uint64(), work: Work{Seats: 1}}
				l.served = time.Duration(r.IntN(40_000_000))
				switch kind := r.IntN(6); {
				case wide && kind == 0:
					l.work.Seats += r.IntN(4)
				case wide && kind == 1:
					l.work.FinalSeats, l.work.FinalLength = 1+r.IntN(4), time.Duration(1+r.IntN(9))*time.Millisecond
				case !wide && kind == 2:
					l.gives = time.Duration(1 + r.IntN(30_000_000))
				}
				loads = append(loads, l)
			}
			events := &timetable{taken: map[time.Duration]bool{}}
			for _, l := range loads {
				events.taken[l.at] = true
			}
			for i, l := range loads {
				if l.gives > 0 {
					loads[i].gives = events.apart(l.at, l.gives, 0)
				}
			}
			want, got := make([]string, len(loads)), make([]string, len(loads))
			synctest.Test(t, func(t *testing.T) { judge(s, limit, loads, events, want) })
			synctest.Test(t, func(t *testing.T) { judged(s, limit, loads, got) })
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%+v, %d seats\n%s", s, limit, diff)
			}
		})
	}
}

// play calls enter for every load at its time.
func play(loads []load, enter func(ctx context.Context, i int, l load)) {
	var all sync.WaitGroup
	begin := time.Now()
	for i, l := range loads {
		time.Sleep(time.Until(begin.Add(l.at)))
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if l.gives > 0 {
				defer time.AfterFunc(l.gives, cancel).Stop()
			}
			enter(ctx, i, l)
		})
		synctest.Wait()
	}
	all.Wait()
}

// judge plays the loads with Kubernetes. It keeps the ends of requests apart from other events: for
// that it changes how long they are served.
func judge(s settings, limit int, loads []load, events *timetable, log []string) {
	begin := time.Now()
	gauges := metrics.RatioedGaugePair{RequestsWaiting: noGauge{}, RequestsExecuting: noGauge{}}
	completer, err := queueset.NewQueueSetFactory(eventclock.Real{}).BeginConstruction(fq.QueuingConfig{
		Name: "x", DesiredNumQueues: s.queues, QueueLengthLimit: s.queueLength, HandSize: s.handSize,
	}, gauges, noGauge{}, noGauge{})
	if err != nil {
		panic(err)
	}
	set := completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: limit, ConcurrencyDenominator: limit})
	play(loads, func(ctx context.Context, i int, l load) {
		w := &fcrequest.WorkEstimate{InitialSeats: uint64(l.work.Seats), FinalSeats: uint64(l.work.FinalSeats), AdditionalLatency: l.work.FinalLength}
		r, _ := set.StartRequest(ctx, w, l.hash, "", "", nil, nil, nil)
		if r == nil {
			log[i] = fmt.Sprintf("%d refused", i)
			return
		}
		log[i] = fmt.Sprintf("%d gave up", i)
		r.Finish(func() {
			began := time.Since(begin)
			log[i] = fmt.Sprintf("%d began at %s", i, began)
			loads[i].served = events.apart(began, l.served, l.work.FinalLength)
			time.Sleep(loads[i].served)
		})
	})
	time.Sleep(time.Minute) // until no seats linger
}

func judged(s settings, limit int, loads []load, log []string) {
	limiter := New(Config{})
	defer limiter.Close()
	lv := newLevel(limiter, "x", limiter.now())
	lv.configure(limiter.now(), s, share{})
	lv.setLimit(limiter.now(), limit)
	f := &flow{schema: &matcher{}, level: lv, tally: lv.tally("x")}
	play(loads, func(ctx context.Context, i int, l load) {
		p, waits, refused := lv.enter(limiter.now(), f, l.hash, l.work)
		if refused != "" {
			log[i] = fmt.Sprintf("%d refused", i)
			return
		}
		if waits != nil {
			if !limiter.wait(ctx, waits, time.Hour) {
				log[i] = fmt.Sprintf("%d gave up", i)
				return
			}
			p = waits.Pass
		}
		log[i] = fmt.Sprintf("%d began at %s", i, limiter.now())
		time.Sleep(l.served)
		p.Leave()
	})
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if lv.executing+lv.waiting+lv.wanted+lv.queues.busy != 0 {
		panic(fmt.Sprintf("something is left: %+v", lv))
	}
}

type noGauge struct{}

func (noGauge) Set(float64)            {}
func (noGauge) Add(float64)            {}
func (noGauge) Inc()                   {}
func (noGauge) Dec()                   {}
func (noGauge) SetToCurrentTime()      {}
func (noGauge) SetDenominator(float64) {}
