package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/kapok-dev/kapok/scheduler/config"
	"github.com/kapok-dev/kapok/scheduler/extender"
	"github.com/kapok-dev/kapok/scheduler/framework"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ofExtenders stands for the extenders among the plugins that have rejected a pod.
const ofExtenders = "Extender"

// An attempt is one attempt to schedule a pod in which plugins of the program or extenders take
// part. It implements place.Extension.
type attempt struct {
	*scheduler
	ctx       context.Context
	pod       *corev1.Pod
	plugins   config.Plugins
	extenders []*extender.Extender // that are called for the pod
	state     *framework.CycleState

	skipFilter, skipScore sets.Set[string] // names of plugins
}

// attempt returns a new attempt, nil if neither plugins nor extenders take part.
func (s *scheduler) attempt(ctx context.Context, p *corev1.Pod) *attempt {
	a := &attempt{scheduler: s, ctx: ctx, pod: p, state: framework.NewCycleState(), skipFilter: sets.Set[string]{}, skipScore: sets.Set[string]{}}
	own := s.plugins[p.Spec.SchedulerName]
	if own != nil {
		a.plugins = *own
	}
	for _, e := range s.extenders {
		if e.Interested(p) {
			a.extenders = append(a.extenders, e)
		}
	}
	if own == nil && len(a.extenders) == 0 {
		return nil
	}
	return a
}

// place is Cluster.Place with the attempt, which may be nil.
func (a *attempt) place(c *place.Cluster, p *corev1.Pod, profile *place.Profile) place.Decision {
	if a == nil {
		return c.Place(p, profile)
	}
	return c.PlaceWith(p, profile, a)
}

// call calls a method of a plugin. One that panics has failed.
func (s *scheduler) call(p framework.Plugin, method string, do func() *framework.Status) (st *framework.Status) {
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("panic: %v", r)
			s.log.Error(err, "Observed a panic in a plugin", "plugin", p.Name(), "method", method, "stack", string(debug.Stack()))
			st = framework.AsStatus(err)
		}
	}()
	return do()
}

// heldBack returns the name of a plugin that does not let a pod be tried yet, "" if none does.
func (s *scheduler) heldBack(ctx context.Context, p *corev1.Pod) string {
	own := s.plugins[p.Spec.SchedulerName]
	if own == nil {
		return ""
	}
	for _, plugin := range own.PreEnqueue {
		if !s.call(plugin, "PreEnqueue", func() *framework.Status { return plugin.PreEnqueue(ctx, p) }).IsSuccess() {
			return plugin.Name()
		}
	}
	return ""
}

// refusalBy returns a status that rejects a node, or all nodes.
func refusalBy(plugin string, st *framework.Status) *place.Refusal {
	return &place.Refusal{Plugin: plugin, Reasons: st.Reasons(), Final: st.Code() == framework.UnschedulableAndUnresolvable}
}

func failureOf(plugin string, err error) *place.Refusal {
	return &place.Refusal{Plugin: plugin, Reasons: []string{err.Error()}, Final: true, Err: err}
}

// Begin implements place.Extension by PreFilter.
func (a *attempt) Begin(all []*place.Node) (limit place.Limit, whole *place.Refusal) {
	if len(a.plugins.PreFilter) == 0 {
		return limit, nil
	}
	nodes := framework.Infos(all)
	for _, p := range a.plugins.PreFilter {
		var result *framework.PreFilterResult
		st := a.call(p, "PreFilter", func() (st *framework.Status) {
			result, st = p.PreFilter(a.ctx, a.state, a.pod, nodes)
			return st
		})
		switch st.Code() {
		case framework.Success:
		case framework.Skip:
			a.skipFilter.Insert(p.Name())
			continue
		case framework.Unschedulable: // the others prepare preemption
			whole = refusalBy(p.Name(), st)
			continue
		case framework.UnschedulableAndUnresolvable:
			return limit, refusalBy(p.Name(), st)
		default:
			return limit, failureOf(p.Name(), fmt.Errorf("running PreFilter plugin %q: %w", p.Name(), st.AsError()))
		}
		if result == nil || result.NodeNames == nil {
			continue
		}
		nodes := map[string]bool{}
		for name := range result.NodeNames {
			nodes[name] = limit.Nodes == nil || limit.Nodes[name]
			if !nodes[name] {
				delete(nodes, name)
			}
		}
		limit = place.Limit{Nodes: nodes, By: append(limit.By, p.Name())}
	}
	return limit, whole
}

// Filter implements place.Extension.
func (a *attempt) Filter(n *place.Node) *place.Refusal {
	for _, p := range a.plugins.Filter {
		if a.skipFilter.Has(p.Name()) {
			continue
		}
		st := a.call(p, "Filter", func() *framework.Status { return p.Filter(a.ctx, a.state, a.pod, framework.Info(n)) })
		switch {
		case st.IsSuccess():
		case st.IsRejected():
			return refusalBy(p.Name(), st)
		default:
			return failureOf(p.Name(), fmt.Errorf("running %q filter plugin: %w", p.Name(), st.AsError()))
		}
	}
	return nil
}

// Narrow implements place.Extension by extenders.
func (a *attempt) Narrow(feasible []*place.Node) (kept []*place.Node, others map[string]*place.Refusal, err error) {
	others = map[string]*place.Refusal{}
	for _, e := range a.extenders {
		if !e.Filters() || len(feasible) == 0 {
			continue
		}
		f, err := e.Filter(a.ctx, a.pod, objectsOf(feasible))
		if err != nil {
			if !e.Ignorable() {
				return nil, nil, err
			}
			a.log.Info("Skipping an extender that has failed and is ignorable", "extender", e.Name(), "error", err.Error())
			continue
		}
		var next []*place.Node
		for _, n := range feasible {
			if f.Feasible[n.Name] {
				next = append(next, n)
				continue
			}
			no := &place.Refusal{Plugin: ofExtenders, Final: true}
			if reason, has := f.Unresolvable[n.Name]; has {
				no.Reasons = []string{reason}
			} else if reason, has := f.Failed[n.Name]; has {
				no.Reasons, no.Final = []string{reason}, false
			}
			others[n.Name] = no
		}
		feasible = next
	}
	return feasible, others, nil
}

func objectsOf(nodes []*place.Node) []*corev1.Node {
	objects := make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		objects[i] = n.Object
	}
	return objects
}

// Score implements place.Extension.
func (a *attempt) Score(feasible []*place.Node, totals []int64) error {
	nodes := framework.Infos(feasible)
	for _, p := range a.plugins.PreScore {
		st := a.call(p, "PreScore", func() *framework.Status { return p.PreScore(a.ctx, a.state, a.pod, nodes) })
		switch {
		case st.Code() == framework.Skip:
			a.skipScore.Insert(p.Name())
		case !st.IsSuccess():
			return fmt.Errorf("running PreScore plugin %q: %w", p.Name(), st.AsError())
		}
	}
	for _, p := range a.plugins.Score {
		if a.skipScore.Has(p.Name()) {
			continue
		}
		scores, err := a.scoresOf(p, nodes)
		if err != nil {
			return err
		}
		for i, s := range scores {
			totals[i] += s.Score * p.Weight
		}
	}
	a.prioritize(feasible, totals)
	return nil
}

// scoresOf returns the scores of a plugin, normalised.
func (a *attempt) scoresOf(p config.ScorePlugin, nodes []framework.NodeInfo) ([]framework.NodeScore, error) {
	scores := make([]framework.NodeScore, len(nodes))
	for i, n := range nodes {
		scores[i].Name = n.Node().Name
		if st := a.call(p, "Score", func() (st *framework.Status) {
			scores[i].Score, st = p.Score(a.ctx, a.state, a.pod, n)
			return st
		}); !st.IsSuccess() {
			return nil, fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.Name(), st.AsError())
		}
	}
	if normalizer, is := p.ScorePlugin.(framework.ScoreNormalizer); is {
		if st := a.call(p, "NormalizeScore", func() *framework.Status { return normalizer.NormalizeScore(a.ctx, a.state, a.pod, scores) }); !st.IsSuccess() {
			return nil, fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", p.Name(), st.AsError())
		}
	}
	for _, s := range scores {
		if s.Score < framework.MinNodeScore || s.Score > framework.MaxNodeScore {
			return nil, fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
				p.Name(), s.Score, framework.MinNodeScore, framework.MaxNodeScore)
		}
	}
	return scores, nil
}

// prioritize adds the scores of extenders, which are called concurrently. One that fails gives
// none.
func (a *attempt) prioritize(feasible []*place.Node, totals []int64) {
	var calls sync.WaitGroup
	all := make([]map[string]int64, len(a.extenders))
	for i, e := range a.extenders {
		if !e.Prioritizes() {
			continue
		}
		calls.Go(func() {
			scores, err := e.Prioritize(a.ctx, a.pod, objectsOf(feasible))
			if err != nil {
				a.log.Info("An extender has failed to score nodes", "extender", e.Name(), "error", err.Error())
			}
			all[i] = scores
		})
	}
	calls.Wait()
	for _, scores := range all {
		for i, n := range feasible {
			totals[i] += scores[n.Name]
		}
	}
}

// Victims implements place.Extension by extenders.
func (a *attempt) Victims(candidates []place.Candidate) ([]place.Candidate, error) {
	for _, e := range a.extenders {
		if !e.Preempts() || len(candidates) == 0 {
			continue
		}
		kept, err := e.Preempt(a.ctx, a.pod, candidates, a.podsOn)
		if err != nil {
			if !e.Ignorable() {
				return nil, err
			}
			a.log.Info("Skipping an extender that has failed and is ignorable", "extender", e.Name(), "error", err.Error())
			continue
		}
		candidates = kept
	}
	return candidates, nil
}

// podsOn returns the pods on a node, false if there is no such node.
func (s *scheduler) podsOn(node string) (pods []*corev1.Pod, exists bool) {
	n := s.cluster.Node(node)
	if n == nil {
		return nil, false
	}
	for _, p := range n.Pods {
		if o := p.Load(); o != nil {
			pods = append(pods, o)
		}
	}
	return pods, true
}

// postFilter calls PostFilter of the plugins that are configured before or after those of
// kube-scheduler, and adds their reasons to results. It reports whether the pod is not to be
// treated any further. The attempt may be nil.
func (a *attempt) postFilter(d place.Decision, before bool, results []string) (_ []string, done bool) {
	if a == nil {
		return results, false
	}
	usual := false
	var nodes map[string]*framework.Status
	for _, p := range a.plugins.PostFilter {
		if p == nil {
			usual = true
			continue
		}
		if usual == before {
			continue
		}
		if nodes == nil {
			nodes = statusesOf(d)
		}
		var result *framework.PostFilterResult
		st := a.call(p, "PostFilter", func() (st *framework.Status) {
			result, st = p.PostFilter(a.ctx, a.state, a.pod, nodes)
			return st
		})
		if result != nil && (st.IsSuccess() || st.IsRejected()) {
			a.nominate(a.pod, result.NominatedNodeName)
		}
		if st.Code() != framework.Unschedulable {
			return st.Reasons(), true
		}
		results = append(results, st.Reasons()...)
	}
	return results, false
}

// statusesOf returns why nodes are not feasible.
func statusesOf(d place.Decision) map[string]*framework.Status {
	all := map[string]*framework.Status{}
	for name, no := range d.Refusals() {
		code := framework.Unschedulable
		if no.Final {
			code = framework.UnschedulableAndUnresolvable
		}
		all[name] = framework.NewStatus(code, no.Reasons...)
	}
	return all
}

// closeExtenders closes the connections to extenders.
func (s *scheduler) closeExtenders() {
	for _, e := range s.extenders {
		e.CloseIdle()
	}
}
