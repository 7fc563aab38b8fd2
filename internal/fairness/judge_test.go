package fairness

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"

	gocmp "github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

var _ = fmt.Sprint
var _ = gocmp.Diff
var _ = maphash.Comparable[int]
var _ = flowcontrolv1.GroupName
var _ = cmp.Compare[int]
var _ auth.Attributes

// A load is a request of a scenario.
type load struct {
	at     time.Duration
	hash   uint64
	work   Work
	served time.Duration
	gives  time.Duration // up after; 0: never
}

// TestQueuesAsKubernetes gives the same requests to a level and to a queue set of Kubernetes, and wants the same ones to begin at the
// same times, and the same ones to be refused.
func TestQueuesAsKubernetes(t *testing.T) {
	for range 60 {
		seed := rand.Uint64()
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
			wide := r.IntN(2) == 0 // when somebody gives up who wants much, Kubernetes lets others wait longer than need be
			at := time.Duration(0)
			for range 50 + r.IntN(250) {
				at += time.Duration(1 + r.IntN(5_000_000)) // nobody comes or goes at the same time as somebody else
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
			want, got := make([]string, len(loads)), make([]string, len(loads))
			synctest.Test(t, func(t *testing.T) { judge(s, limit, loads, want) })
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

func judge(s settings, limit int, loads []load, log []string) {
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
			log[i] = fmt.Sprintf("%d began at %s", i, time.Since(begin))
			time.Sleep(l.served)
		})
	})
	time.Sleep(time.Minute) // until nothing lingers
}

func judged(s settings, limit int, loads []load, log []string) {
	limiter := New(Options{})
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

var _ = slices.Sort[[]int]
