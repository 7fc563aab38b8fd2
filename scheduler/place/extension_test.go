package place

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A stub is an Extension. Its functions may be nil.
type stub struct {
	limit   Limit
	whole   *Refusal
	filter  func(*Node) *Refusal
	narrow  func([]*Node) ([]*Node, map[string]*Refusal, error)
	score   func(*Node) int64
	victims func([]Candidate) ([]Candidate, error)
	seen    []string // the nodes of Filter, with the number of their pods
}

func (s *stub) Begin([]*Node) (Limit, *Refusal) { return s.limit, s.whole }

func (s *stub) Filter(n *Node) *Refusal {
	s.seen = append(s.seen, fmt.Sprint(n.Name, " ", len(n.Pods)))
	if s.filter == nil {
		return nil
	}
	return s.filter(n)
}

func (s *stub) Narrow(nodes []*Node) ([]*Node, map[string]*Refusal, error) {
	if s.narrow == nil {
		return nodes, nil, nil
	}
	return s.narrow(nodes)
}

func (s *stub) Score(nodes []*Node, totals []int64) error {
	if s.score == nil {
		return errors.New("no scores")
	}
	for i, n := range nodes {
		totals[i] += s.score(n)
	}
	return nil
}

func (s *stub) Victims(all []Candidate) ([]Candidate, error) {
	if s.victims == nil {
		return all, nil
	}
	return s.victims(all)
}

// only lets a pod run on one node, by a rule of NodeAffinity.
func only(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}},
		}}}
	}
}

func named(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// TestExtension checks decisions in which an Extension takes part.
func TestExtension(t *testing.T) {
	no := &Refusal{Plugin: "Own", Reasons: []string{"no"}}
	for name, tc := range map[string]struct {
		by      stub
		pod     func(*corev1.Pod)
		node    string
		message string // of a pod without a node
		plugins string
		err     string
	}{
		"scores":         {by: stub{score: func(n *Node) int64 { return map[string]int64{"b": math.MaxInt32}[n.Name] }}, node: "b"},
		"scores fail":    {err: "no scores"},
		"one node":       {by: stub{filter: func(n *Node) *Refusal { return map[string]*Refusal{"a": no, "b": no}[n.Name] }}, node: "c"},
		"no node":        {by: stub{filter: func(*Node) *Refusal { return no }}, message: "0/3 nodes are available: 3 no.", plugins: "Own"},
		"a filter fails": {by: stub{filter: func(*Node) *Refusal { return &Refusal{Plugin: "Own", Err: errors.New("broken")} }}, err: "broken"},
		"all refused":    {by: stub{whole: no}, message: "0/3 nodes are available: no.", plugins: "Own"},
		"begin fails":    {by: stub{whole: &Refusal{Plugin: "Own", Err: errors.New("broken")}}, err: "broken"},
		"limit":          {by: stub{limit: Limit{named("c"), []string{"Own"}}}, node: "c"},
		"limit to nothing": {
			by: stub{limit: Limit{named("d"), []string{"Own"}}}, message: "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Own].", plugins: "Own",
		},
		"limit to none": {by: stub{limit: Limit{named(), []string{"Own"}}}, message: "0/3 nodes are available: node(s) didn't satisfy plugin Own.", plugins: "Own"},
		"limits":        {by: stub{limit: Limit{named("a", "b"), []string{"Own"}}}, pod: only("b"), node: "b"},
		"limits that exclude each other": {
			by: stub{limit: Limit{named("a"), []string{"Own"}}}, pod: only("b"),
			message: "0/3 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity Own] simultaneously.", plugins: "NodeAffinity Own",
		},
		"narrowed": {by: stub{narrow: func(all []*Node) ([]*Node, map[string]*Refusal, error) { return all[1:2], nil, nil }}, node: "b"},
		"narrowed to none": {
			by: stub{narrow: func(all []*Node) ([]*Node, map[string]*Refusal, error) {
				return nil, map[string]*Refusal{"a": no, "b": {Plugin: "Extender", Final: true}, "unknown": no}, nil
			}},
			message: "0/3 nodes are available: 1 no.", plugins: "Extender Own",
		},
		"narrowing fails": {by: stub{narrow: func([]*Node) ([]*Node, map[string]*Refusal, error) { return nil, nil, errors.New("broken") }}, err: "broken"},
		"rules come first": {
			by: stub{filter: func(*Node) *Refusal { return no }}, pod: ranked(0, "100"),
			message: "0/3 nodes are available: 3 Insufficient cpu.", plugins: "NodeResourcesFit",
		},
	} {
		c, profile := NewCluster(1), DefaultProfile()
		for _, name := range []string{"a", "b", "c"} {
			c.SetNode(newNode(name))
		}
		p := newTestPod("p")
		if tc.pod != nil {
			tc.pod(p)
		}
		by := tc.by
		d := c.PlaceWith(p, profile, &by)
		switch {
		case tc.err != "":
			if d.Err == nil || d.Err.Error() != tc.err {
				t.Errorf("%s: error %v, want %s", name, d.Err, tc.err)
			}
		case d.Err != nil || d.Node != tc.node:
			t.Errorf("%s: got %q, %v; want %q", name, d.Node, d.Err, tc.node)
		case d.Node == "" && (d.Message() != tc.message || strings.Join(d.Plugins(), " ") != tc.plugins):
			t.Errorf("%s: got %q by %v; want %q by %s", name, d.Message(), d.Plugins(), tc.message, tc.plugins)
		}
		if d := c.Place(newTestPod("other"), profile); d.Node == "" || d.Err != nil {
			t.Errorf("%s: without the extension, a pod of the same class gets %q, %v", name, d.Node, d.Err)
		}
	}
}

// TestExtensionPreempts checks that an Extension filters nodes without their victims and with
// nominated pods, and that it changes candidates.
func TestExtensionPreempts(t *testing.T) {
	c, profile := NewCluster(1), DefaultProfile()
	for _, name := range []string{"a", "b"} {
		c.SetNode(newNode(name))
		c.SetPod(newTestPod("low-"+name, ranked(0, "2"), on(name)))
	}
	c.Nominate(newTestPod("nominated", ranked(20, "1")), "a")
	full := func(n *Node) *Refusal { // a node has room for one pod
		if len(n.Pods) > 0 {
			return &Refusal{Plugin: "Own", Reasons: []string{"taken"}}
		}
		return nil
	}
	by := &stub{filter: full}
	d := c.PlaceWith(newTestPod("high", ranked(10, "1")), profile, by)
	if want := []string{"a 2", "b 1"}; !slices.Equal(by.seen, want) {
		t.Errorf("filtered %v, want %v", by.seen, want)
	}
	got := d.Preempt(profile.Preempter)
	if got.Node != "b" || len(got.Victims) != 1 || got.Victims[0].Name != "low-b" {
		t.Errorf("preemption %+v, want low-b on b: a has a nominated pod", got)
	}
	by.victims = func(all []Candidate) ([]Candidate, error) { return nil, nil }
	if got := d.Preempt(profile.Preempter); got.Node != "" || got.Message != "preemption: no candidate node for preemption" || got.Renounce {
		t.Errorf("preemption without candidates: %+v", got)
	}
	by.victims = func(all []Candidate) ([]Candidate, error) { return nil, errors.New("broken") }
	if got := d.Preempt(profile.Preempter); got.Node != "" || got.Message != "preemption: broken" {
		t.Errorf("preemption that fails: %+v", got)
	}
}

// TestExtensionNominated checks that a nominated pod gets its node only if the Extension lets it.
func TestExtensionNominated(t *testing.T) {
	c, profile := NewCluster(1), DefaultProfile()
	for _, name := range []string{"a", "b"} {
		c.SetNode(newNode(name))
	}
	p := newTestPod("p")
	c.Nominate(p, "a")
	if d := c.PlaceWith(p, profile, &stub{}); d.Node != "a" {
		t.Errorf("got %q, want a", d.Node)
	}
	drop := &stub{narrow: func(all []*Node) ([]*Node, map[string]*Refusal, error) {
		return slices.DeleteFunc(slices.Clone(all), func(n *Node) bool { return n.Name == "a" }), nil, nil
	}}
	if d := c.PlaceWith(p, profile, drop); d.Node != "b" {
		t.Errorf("got %q, want b", d.Node)
	}
}

// TestRefreshNode checks that the object of a node is replaced.
func TestRefreshNode(t *testing.T) {
	c := NewCluster(1)
	c.SetNode(newNode("a"))
	next := newNode("a", func(n *corev1.Node) { n.Annotations = map[string]string{"k": "v"} })
	c.RefreshNode(next)
	c.RefreshNode(newNode("unknown"))
	if c.Node("a").Object != next || c.Node("unknown") != nil || len(c.Nodes()) != 1 {
		t.Errorf("nodes %v", c.Nodes())
	}
}
