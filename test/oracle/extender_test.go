package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/scheduler/extender"
	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// TestExtender sends random requests to an extender with random responses, by Kapok's client and by
// kube-scheduler's: requests, results and errors must be the same.
func TestExtender(t *testing.T) {
	g := rand.New(rand.NewPCG(seeds.Of(t), 0))
	var response, request string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		data, _ := json.Marshal(body)
		request = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(data)
		if response == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(response))
	}))
	defer server.Close()
	seen := map[string]int{}
	for i := range 3000 {
		c := configv1.Extender{
			URLPrefix: server.URL + []string{"", "/", "/x", "/x//"}[g.IntN(4)], FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind",
			Weight: int64(1 + g.IntN(5)), NodeCacheCapable: g.IntN(2) == 0, Ignorable: false,
		}
		ours, err := extender.New(c)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := scheduler.NewHTTPExtender(&config.Extender{
			URLPrefix: c.URLPrefix, FilterVerb: c.FilterVerb, PrioritizeVerb: c.PrioritizeVerb, PreemptVerb: c.PreemptVerb, BindVerb: c.BindVerb,
			Weight: c.Weight, NodeCacheCapable: c.NodeCacheCapable,
		})
		if err != nil {
			t.Fatal(err)
		}
		w := newExtenderWorld(g)
		verb := []string{"filter", "prioritize", "preempt", "bind"}[g.IntN(4)]
		response = w.response(g, verb)
		want := w.theirs(verb, theirs)
		theirRequest := request
		got := w.ours(t, verb, ours)
		ours.CloseIdle()
		if got != want || request != theirRequest {
			t.Fatalf("case %d, %+v, %s answers %s\nkube-scheduler sends\n%s\nand has\n%s\nKapok sends\n%s\nand has\n%s", i, c, verb, response, theirRequest, want, request, got)
		}
		seen[strings.SplitN(got, " ", 2)[0]]++
	}
	t.Log(seen)
	for _, word := range []string{"filtered", "scores", "victims", "bound", "error"} {
		if seen[word] < 50 {
			t.Errorf("%d cases of %q: the responses are not various", seen[word], word)
		}
	}
}

// An extenderWorld is the input of a call.
type extenderWorld struct {
	pod   *corev1.Pod
	nodes []*corev1.Node
	pods  map[string][]*corev1.Pod // by nodes
}

func newExtenderWorld(g *rand.Rand) *extenderWorld {
	w := &extenderWorld{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}}, pods: map[string][]*corev1.Pod{}}
	for i := range 1 + g.IntN(3) {
		name := fmt.Sprint("n", i)
		w.nodes = append(w.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}}})
		for j := range 1 + g.IntN(3) {
			w.pods[name] = append(w.pods[name], &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, "-", j), UID: types.UID(fmt.Sprint(name, "-", j))}, Spec: corev1.PodSpec{NodeName: name},
			})
		}
	}
	return w
}

// response returns the response of an extender: a good one, one that lies, or nonsense.
func (w *extenderWorld) response(g *rand.Rand, verb string) string {
	switch g.IntN(12) {
	case 0:
		return ""
	case 1:
		return []string{"null", "{}", "[]", `"x"`, "7"}[g.IntN(5)]
	}
	var result any
	some := func() (names []string) {
		for i := range 3 {
			if name := fmt.Sprint("n", i); g.IntN(2) == 0 && (i < len(w.nodes) || g.IntN(4) == 0) {
				names = append(names, name)
			}
		}
		return names
	}
	reasons := func() extenderv1.FailedNodesMap {
		all := extenderv1.FailedNodesMap{}
		for _, name := range some() {
			all[name] = []string{"full", "old"}[g.IntN(2)]
		}
		return all
	}
	switch verb {
	case "filter":
		r := extenderv1.ExtenderFilterResult{FailedNodes: reasons(), FailedAndUnresolvableNodes: reasons()}
		if names := some(); g.IntN(3) > 0 {
			r.NodeNames = &names
		}
		if g.IntN(3) > 0 {
			r.Nodes = &corev1.NodeList{}
			for _, n := range w.nodes { // one that is unknown is an error only here
				if g.IntN(2) == 0 {
					r.Nodes.Items = append(r.Nodes.Items, *n)
				}
			}
		}
		if g.IntN(8) == 0 {
			r.Error = "broken"
		}
		result = r
	case "prioritize":
		list := extenderv1.HostPriorityList{}
		for _, name := range some() {
			list = append(list, extenderv1.HostPriority{Host: name, Score: int64(g.IntN(20) - 5)})
		}
		result = list
	case "preempt":
		all := map[string]*extenderv1.MetaVictims{}
		for _, name := range some() {
			all[name] = &extenderv1.MetaVictims{NumPDBViolations: int64(g.IntN(3))}
			for _, p := range w.pods[name] {
				uid := string(p.UID)
				if g.IntN(20) == 0 {
					uid = "unknown"
				}
				all[name].Pods = append(all[name].Pods, &extenderv1.MetaPod{UID: uid})
			}
		}
		result = extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: all}
	case "bind":
		result = extenderv1.ExtenderBindingResult{Error: []string{"", "broken"}[g.IntN(2)]}
	}
	data, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// describeError returns an error without what only one of them says about a bad response.
func describeError(err error) string {
	text := err.Error()
	if _, cause, is := strings.Cut(text, "decode response: "); is {
		text = cause
	}
	return "error " + text
}

// describeFiltered returns the feasible nodes, and the reasons of those among the others that were
// sent, as kube-scheduler uses them.
func (w *extenderWorld) describeFiltered(feasible map[string]bool, failed, unresolvable map[string]string) string {
	var text []string
	for _, n := range w.nodes {
		switch {
		case feasible[n.Name]:
			text = append(text, n.Name)
		case unresolvable[n.Name] != "":
			text = append(text, n.Name+" never: "+unresolvable[n.Name])
		case failed[n.Name] != "":
			text = append(text, n.Name+" no: "+failed[n.Name])
		}
	}
	return "filtered " + strings.Join(text, ", ")
}

func describeVictims(victims map[string][]*corev1.Pod, violations map[string]int64) string {
	var text []string
	for node, pods := range victims {
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
		}
		text = append(text, fmt.Sprint(node, " ", names, " ", violations[node]))
	}
	sort.Strings(text)
	return "victims " + strings.Join(text, ", ")
}

func describeScores(scores map[string]int64) string {
	var text []string
	for node, score := range scores {
		text = append(text, fmt.Sprint(node, " ", score))
	}
	sort.Strings(text)
	return "scores " + strings.Join(text, ", ")
}

func (w *extenderWorld) theirs(verb string, e fwk.Extender) string {
	var pods []*corev1.Pod
	for _, n := range w.nodes {
		pods = append(pods, w.pods[n.Name]...)
	}
	lister := cache.NewSnapshot(pods, w.nodes).NodeInfos()
	infos := make([]fwk.NodeInfo, len(w.nodes))
	for i, n := range w.nodes {
		infos[i], _ = lister.Get(n.Name)
	}
	switch verb {
	case "filter":
		kept, failed, unresolvable, err := e.Filter(w.pod, infos)
		if err != nil {
			return describeError(err)
		}
		feasible := map[string]bool{}
		for _, n := range kept {
			feasible[n.Node().Name] = true
		}
		return w.describeFiltered(feasible, failed, unresolvable)
	case "prioritize":
		list, weight, err := e.Prioritize(w.pod, infos)
		if err != nil {
			return describeError(err)
		}
		scores := map[string]int64{}
		for _, p := range *list {
			scores[p.Host] += p.Score * weight * (fwk.MaxNodeScore / extenderv1.MaxExtenderPriority)
		}
		return describeScores(scores)
	case "preempt":
		all := map[string]*extenderv1.Victims{}
		for name, pods := range w.pods {
			all[name] = &extenderv1.Victims{Pods: pods, NumPDBViolations: 1}
		}
		kept, err := e.ProcessPreemption(w.pod, all, lister)
		if err != nil {
			return "error of one of the nodes"
		}
		victims, violations := map[string][]*corev1.Pod{}, map[string]int64{}
		for node, v := range kept {
			victims[node], violations[node] = v.Pods, v.NumPDBViolations
		}
		return describeVictims(victims, violations)
	}
	err := e.Bind(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: w.pod.Name, UID: w.pod.UID}, Target: corev1.ObjectReference{Name: "n0"}})
	if err != nil {
		return describeError(err)
	}
	return "bound "
}

func (w *extenderWorld) ours(t *testing.T, verb string, e *extender.Extender) string {
	ctx := t.Context()
	switch verb {
	case "filter":
		f, err := e.Filter(ctx, w.pod, w.nodes)
		if err != nil {
			return describeError(err)
		}
		return w.describeFiltered(f.Feasible, f.Failed, f.Unresolvable)
	case "prioritize":
		scores, err := e.Prioritize(ctx, w.pod, w.nodes)
		if err != nil {
			return describeError(err)
		}
		return describeScores(scores)
	case "preempt":
		var all []place.Candidate
		for name, pods := range w.pods {
			all = append(all, place.Candidate{Node: name, Victims: pods, Violations: 1})
		}
		kept, err := e.Preempt(ctx, w.pod, all, func(node string) ([]*corev1.Pod, bool) {
			return w.pods[node], slices.ContainsFunc(w.nodes, func(n *corev1.Node) bool { return n.Name == node })
		})
		if err != nil {
			return "error of one of the nodes"
		}
		victims, violations := map[string][]*corev1.Pod{}, map[string]int64{}
		for _, c := range kept {
			victims[c.Node], violations[c.Node] = c.Victims, int64(c.Violations)
		}
		return describeVictims(victims, violations)
	}
	if err := e.Bind(ctx, w.pod, "n0"); err != nil {
		return describeError(err)
	}
	return "bound "
}
