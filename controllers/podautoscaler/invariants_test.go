package podautoscaler_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestInvariants checks what an autoscaler promises while its metric and its limits change at
// random, a user changes the replicas, requests fail, and controllers are restarted: replicas stay
// within the bounds, never change faster than the policies allow, and are not changed against what
// was recommended within the windows; and in the end they are what the metric asks for.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 9 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i))), faults: i%3 == 2}
			opts := []kapoktest.Option{withQueues}
			if h.faults {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.03, DelayWatch: 0.1, CutWatch: 0.02,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { h.t, h.env = t, env; h.play() }, opts...)
		})
	}
}

// period is the sync period of all histories, and slack how much later than that a look may be.
const (
	period = 15 * time.Second
	slack  = 2 * time.Second
)

// A history is one random one.
type history struct {
	t      *testing.T
	env    *kapoktest.Env
	r      *rand.Rand
	faults bool

	hpa    *autoscalingv2.HorizontalPodAutoscaler
	target *appsv1.ReplicaSet
	queue  *unstructured.Unstructured
	stop   context.CancelFunc // of the controllers

	began    time.Time // of the present controllers
	values   []since   // of the metric, in pods
	bounds   time.Time // of the last change of minReplicas or maxReplicas
	replicas int32     // last seen
	changes  []scaled  // by the controllers since began
	log      []string
}

// since is a value that holds from a time on.
type since struct {
	at    time.Time
	value int32
}

// scaled is a change of replicas by the autoscaler.
type scaled struct {
	at       time.Time
	from, to int32
}

func (h *history) play() {
	h.hpa, h.target, h.queue = newAutoscaler("h", "web", 1+h.r.Int32N(3), 5+h.r.Int32N(25)), newTarget("web", 1+h.r.Int32N(10)), newQueue(50)
	h.hpa.Spec.Behavior = h.behavior()
	h.replicas = *h.target.Spec.Replicas
	h.values = []since{{time.Now(), 5}}
	h.env.Create(h.queue, h.target)
	h.env.UpdateStatus(h.target, func() { h.target.Status.Replicas = *h.target.Spec.Replicas })
	h.restart()
	h.env.Create(h.hpa)
	h.note("%+v", h.describe())
	for range 60 {
		h.step()
	}
	h.end()
	if h.t.Failed() {
		h.t.Log(strings.Join(h.log, "\n"))
	}
}

// behavior returns a random one, or nil. Its tolerances are zero, so that the recommendation
// depends on the metric alone.
func (h *history) behavior() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	rules := func() *autoscalingv2.HPAScalingRules {
		r := &autoscalingv2.HPAScalingRules{Tolerance: new(resource.MustParse("0")), StabilizationWindowSeconds: new(h.r.Int32N(5) * 40)}
		if h.r.IntN(3) == 0 {
			r.SelectPolicy = new(autoscalingv2.MinChangePolicySelect)
		}
		for range 1 + h.r.IntN(2) {
			p := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 1 + h.r.Int32N(4), PeriodSeconds: 10 + h.r.Int32N(100)}
			if h.r.IntN(2) == 0 {
				p.Type, p.Value = autoscalingv2.PercentScalingPolicy, 10+h.r.Int32N(90)
			}
			r.Policies = append(r.Policies, p)
		}
		return r
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()}
}

// step does something at random, and checks what the autoscaler does in the time after it.
func (h *history) step() {
	switch n := h.r.IntN(10); {
	case n < 4:
		pods := h.r.Int32N(30)
		h.note("the metric asks for %d", pods)
		h.values = append(h.values, since{time.Now(), pods})
		h.env.Update(h.queue, func() { h.queue.Object["value"] = fmt.Sprint(pods * 10) })
	case n == 4 && h.r.IntN(2) == 0:
		h.note("restart")
		h.restart()
	case n == 5 && h.r.IntN(2) == 0:
		least := 1 + h.r.Int32N(4)
		most := least + h.r.Int32N(20)
		h.note("bounds %d and %d", least, most)
		h.bounds = time.Now()
		h.env.Update(h.hpa, func() { h.hpa.Spec.MinReplicas, h.hpa.Spec.MaxReplicas = &least, most })
	case n == 6 && h.r.IntN(2) == 0:
		to := 1 + h.r.Int32N(20)
		h.note("a user wants %d", to)
		h.env.Update(h.target, func() { h.target.Spec.Replicas = &to })
		h.replicas = to
		h.run()
	}
	for range h.r.IntN(60) {
		time.Sleep(time.Second)
		h.look()
	}
}

// restart replaces the running controllers by new ones, which remember nothing.
func (h *history) restart() {
	if h.stop != nil {
		h.stop()
		time.Sleep(time.Second) // a request may be under way
		h.look()
	}
	options := controllers.Options{Names: []string{"horizontalpodautoscaling"}}
	options.PodAutoscaler.SyncPeriod = period
	options.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(h.env.Config(), options)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.env.Context())
	h.stop, h.began, h.changes = stop, time.Now(), nil
	h.env.Go(func(context.Context) error { return m.Start(ctx) })
}

// look checks a change of the replicas since it was called last.
func (h *history) look() {
	h.env.Get(h.target)
	to := *h.target.Spec.Replicas
	if to == h.replicas {
		return
	}
	c := scaled{time.Now(), h.replicas, to}
	h.note("scaled from %d to %d", c.from, c.to)
	h.check(c)
	h.changes, h.replicas = append(h.changes, c), to
	h.run()
}

// run lets the target have its replicas, as its controller would.
func (h *history) run() {
	if h.target.Status.Replicas == *h.target.Spec.Replicas {
		return
	}
	h.env.UpdateStatus(h.target, func() { h.target.Status.Replicas = *h.target.Spec.Replicas })
}

// check checks a change.
func (h *history) check(c scaled) {
	least, most := *h.hpa.Spec.MinReplicas, h.hpa.Spec.MaxReplicas
	if time.Since(h.bounds) < period+slack {
		return // the change may be due to the former bounds
	}
	if c.to < least || c.to > most {
		h.t.Errorf("scaled from %d to %d, beyond %d to %d", c.from, c.to, least, most)
	}
	if c.from < least || c.from > most {
		return // back into the bounds, at any rate
	}
	up := c.to > c.from
	rules := h.hpa.Spec.Behavior.ScaleDown
	if up {
		rules = h.hpa.Spec.Behavior.ScaleUp
	}
	if limit := h.limit(rules, c, up); up && c.to > limit || !up && c.to < limit {
		h.t.Errorf("scaled from %d to %d, faster than to %d", c.from, c.to, limit)
	}
	if h.faults {
		return // a look that failed has recommended nothing
	}
	window := time.Duration(*rules.StabilizationWindowSeconds) * time.Second
	for _, asked := range h.asked(c.at.Add(-window), c.at) {
		if up && c.to > max(asked, least) || !up && c.to < min(asked, most) {
			h.t.Errorf("scaled from %d to %d, although the metric has asked for %d within %v", c.from, c.to, asked, window)
		}
	}
}

// limit returns the bound that policies set, computed from all changes. A change is seen up to a
// second late: one that may be in a period or not counts if that allows more.
func (h *history) limit(rules *autoscalingv2.HPAScalingRules, c scaled, up bool) int32 {
	limit, first := 0.0, true
	for _, p := range rules.Policies {
		before := float64(c.from)
		for _, other := range h.changes {
			begin := c.at.Add(-time.Duration(p.PeriodSeconds) * time.Second)
			certain, possible := other.at.After(begin.Add(time.Second)), !other.at.Before(begin.Add(-time.Second))
			if certain || possible && (other.to < other.from) == up {
				before -= float64(other.to - other.from)
			}
		}
		var one float64
		switch {
		case p.Type == autoscalingv2.PodsScalingPolicy && up:
			one = before + float64(p.Value)
		case p.Type == autoscalingv2.PodsScalingPolicy:
			one = before - float64(p.Value)
		case up:
			one = math.Ceil(before * (1 + float64(p.Value)/100))
		default:
			one = math.Trunc(before * (1 - float64(p.Value)/100))
		}
		farther := up && one > limit || !up && one < limit
		if first || farther == (*rules.SelectPolicy == autoscalingv2.MaxChangePolicySelect) {
			limit, first = one, false
		}
	}
	return int32(limit)
}

// asked returns what the metric has asked for between two times, at any look: values that were
// there for a whole period, while the present controllers ran.
func (h *history) asked(from, to time.Time) (all []int32) {
	if from.Before(h.began) {
		from = h.began
	}
	for i, v := range h.values {
		begin, end := v.at, to
		if i+1 < len(h.values) {
			end = h.values[i+1].at
		}
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.Sub(begin) > period+slack {
			all = append(all, v.value)
		}
	}
	return all
}

// end checks that the autoscaler arrives at what the metric asks for, after all windows and
// periods.
func (h *history) end() {
	h.env.EndFaults()
	for range 200 { // of which the steps are not checked
		time.Sleep(period)
		h.env.Get(h.target)
		h.replicas = *h.target.Spec.Replicas
		h.run()
	}
	wanted := h.values[len(h.values)-1].value
	wanted = min(max(wanted, *h.hpa.Spec.MinReplicas), h.hpa.Spec.MaxReplicas)
	if h.replicas != wanted && !h.stuck() {
		h.t.Errorf("%d replicas in the end, want %d", h.replicas, wanted)
	}
	h.env.Get(h.hpa)
	if s := h.hpa.Status; s.CurrentReplicas != h.replicas || s.DesiredReplicas != h.replicas {
		h.t.Errorf("the status has %d and %d replicas, want %d", s.CurrentReplicas, s.DesiredReplicas, h.replicas)
	}
}

// stuck reports whether a percentage of few replicas allows no step.
func (h *history) stuck() bool {
	c := scaled{time.Now(), h.replicas, 0}
	return h.limit(h.hpa.Spec.Behavior.ScaleDown, c, false) >= h.replicas
}

func (h *history) describe() any {
	h.env.Get(h.hpa)
	b := h.hpa.Spec.Behavior
	return []any{*h.hpa.Spec.MinReplicas, h.hpa.Spec.MaxReplicas, *b.ScaleUp.StabilizationWindowSeconds, *b.ScaleUp.SelectPolicy, b.ScaleUp.Policies,
		*b.ScaleDown.StabilizationWindowSeconds, *b.ScaleDown.SelectPolicy, b.ScaleDown.Policies}
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}
