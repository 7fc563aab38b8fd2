package builtin

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// act creates the body of an action of a pod.
func (s *server) act(name, subresource, text string) (resource.Result, error) {
	return s.store.Create(s.t.Context(), s.request("pods", name, subresource), s.body(text))
}

// get returns an object, nil if there is none.
func (s *server) get(plural, name string) resource.Tree {
	s.t.Helper()
	r := s.request(plural, name, "")
	result, err := s.store.Get(s.t.Context(), r, "")
	if apierrors.IsNotFound(err) {
		return nil
	}
	tree, err := resource.TreeOf(r.Definition, r.Version, s.must(result, err).Object)
	if err != nil {
		s.t.Fatal(err)
	}
	return tree
}

func TestBinding(t *testing.T) {
	s := newServer(t)
	s.must(s.create("pods", `{metadata: {name: p}, spec: {containers: [`+container+`]}}`))
	s.must(s.create("pods", `{metadata: {name: gated}, spec: {schedulingGates: [{name: a}], containers: [`+container+`]}}`))
	for _, c := range []struct{ pod, body, want string }{
		{"p", `{metadata: {name: q}, target: {name: n1}}`, "name in URL does not match"},
		{"p", `{metadata: {name: p}, target: {}}`, "target.name: Required value"},
		{"p", `{metadata: {name: p}, target: {kind: Pod, name: n1}}`, `supported values: "Node", "<empty>"`},
		{"p", `{metadata: {name: p, uid: other}, target: {name: n1}}`, "UID in precondition: other"},
		{"p", `{metadata: {name: p, resourceVersion: "1"}, target: {name: n1}}`, "ResourceVersion in precondition: 1"},
		{"gone", `{metadata: {name: gone}, target: {name: n1}}`, `pods "gone" not found`},
		{"gated", `{metadata: {name: gated}, target: {name: n1}}`, "non-empty .spec.schedulingGates"},
		{"p", `{metadata: {name: p, labels: {zone: z}, annotations: {why: because}}, target: {kind: Node, name: n1}}`, ""},
		{"p", `{metadata: {name: p}, target: {name: m}}`, `pod p is already assigned to node "n1"`},
	} {
		_, err := s.act(c.pod, "binding", c.body)
		if got := message(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
	pod := s.get("pods", "p")
	if text(pod, "spec", "nodeName") != "n1" || text(pod, "metadata", "labels", "zone") != "z" || text(pod, "metadata", "annotations", "why") != "because" {
		t.Errorf("the pod does not show its binding: %v", pod)
	}
	if n, _ := get(pod, "metadata", "generation").(int64); n != 1 {
		t.Errorf("generation %d", n)
	}
	for _, entry := range get(pod, "metadata", "managedFields").([]any) {
		if text(entry.(resource.Tree), "subresource") != "" {
			t.Errorf("the binding has made somebody own fields: %v", entry)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestEviction(t *testing.T) {
	s := newServer(t)
	if s.store.Registry().Load().Resource(budgets) == nil {
		s.store.Registry().Put(kind[policyv1.PodDisruptionBudget]{
			version: policyv1.SchemeGroupVersion, plural: "poddisruptionbudgets", status: &status[policyv1.PodDisruptionBudget]{},
		}.definition())
	}
	aboutBudget := func(name, subresource string) *resource.Request {
		r := *s.request("pods", name, subresource)
		r.Definition = s.store.Registry().Load().Resource(budgets)
		r.Version = r.Definition.Storage
		return &r
	}
	budget := func(name, match, status string) {
		s.must(s.store.Create(t.Context(), aboutBudget("", ""), s.body(`{metadata: {name: `+name+`}, spec: {minAvailable: 2, selector: {matchLabels: {`+match+`}}}}`)))
		patch := resource.Patch{Type: types.MergePatchType, Data: s.body(`{status: {observedGeneration: 1, expectedPods: 3, ` + status + `}}`).Data}
		s.must(s.store.Patch(t.Context(), aboutBudget(name, "status"), patch))
	}
	pod := func(name, labels, status string) {
		s.must(s.create("pods", `{metadata: {name: `+name+`, labels: {`+labels+`}}, spec: {containers: [`+container+`]}}`))
		s.must(s.patch("pods", name, "status", types.MergePatchType, `{status: {`+status+`}}`))
	}
	const ready = `phase: Running, conditions: [{type: Ready, status: "True"}]`
	budget("one", "a: one", `disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2`)
	budget("none", "a: none", `disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2`)
	budget("twin", "b: twin", `disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1`)
	budget("twin2", "b: twin", `disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1`)
	pod("pending", "a: none", `phase: Pending`)
	pod("free", "x: z", ready)
	pod("first", "a: one", ready)
	pod("second", "a: one", ready)
	pod("guarded", "a: none", ready)
	pod("unready", "a: none", `phase: Running`)
	pod("twins", "b: twin", ready)
	for _, c := range []struct {
		pod, options, want string
		gone               bool
	}{
		{"pending", `{}`, "", true},
		{"free", `{preconditions: {uid: other}}`, "the UID in the precondition (other) does not match", false},
		{"free", `{dryRun: [All]}`, "", false},
		{"free", `{ignoreStoreReadErrorWithClusterBreakingPotential: true}`, "can not be set for pod eviction", false},
		{"free", `{}`, "", true},
		{"first", `{dryRun: [All]}`, "", false},
		{"first", `{}`, "", true},
		{"second", `{}`, "Cannot evict pod as it would violate the pod's disruption budget.", false},
		{"guarded", `{}`, "Cannot evict pod as it would violate the pod's disruption budget.", false},
		{"unready", `{}`, "", true},
		{"twins", `{}`, "more than one PodDisruptionBudget", false},
	} {
		_, err := s.act(c.pod, "eviction", `{metadata: {name: `+c.pod+`}, deleteOptions: `+c.options+`}`)
		if got := message(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q", c.pod, c.options, got, c.want)
		}
		if gone := s.get("pods", c.pod) == nil; gone != c.gone {
			t.Errorf("%s %s: gone %v", c.pod, c.options, gone)
		}
	}
	result := s.must(s.store.Get(t.Context(), aboutBudget("one", ""), ""))
	one, err := resource.TreeOf(aboutBudget("", "").Definition, aboutBudget("", "").Version, result.Object)
	if err != nil {
		t.Fatal(err)
	}
	status := one["status"].(resource.Tree)
	if allowed, _ := status["disruptionsAllowed"].(int64); allowed != 0 || text(status, "disruptedPods", "first") == "" {
		t.Errorf("the budget does not count the disruption: %v", status)
	}
	if _, err := s.act("guarded", "eviction", `{metadata: {name: guarded}}`); !apierrors.IsTooManyRequests(err) {
		t.Errorf("clients would not try again: %v", err)
	}
}

func TestEphemeralContainersAndResize(t *testing.T) {
	s := newServer(t)
	s.must(s.create("pods", `{metadata: {name: p}, spec: {containers: [{name: c, image: "i:1", resources: {requests: {cpu: 1}}}]}}`))
	for _, c := range []struct{ subresource, patch, want string }{
		{"ephemeralcontainers", `{spec: {nodeName: n1, ephemeralContainers: [{name: debug, image: d}]}}`, ""},
		{"ephemeralcontainers", `{spec: {ephemeralContainers: [{name: debug, image: e}]}}`, "may not be changed"},
		{"ephemeralcontainers", `{spec: {ephemeralContainers: [{name: c, image: e}]}}`, "Duplicate value"},
		{"resize", `{spec: {containers: [{name: c, image: other, resources: {requests: {cpu: 2}}}]}}`, ""},
		{"resize", `{spec: {containers: [{name: c, resources: {requests: {cpu: 2, memory: 1Gi, ephemeral-storage: 1Gi}}}]}}`, "only cpu and memory resources are mutable"},
		{"resize", `{spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 2, memory: 1Gi}}}]}}`, "Pod QOS Class may not change"},
	} {
		_, err := s.patch("pods", "p", c.subresource, types.StrategicMergePatchType, c.patch)
		if got := message(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q", c.subresource, c.patch, got, c.want)
		}
	}
	pod := s.get("pods", "p")
	containers := get(pod, "spec", "containers").([]any)
	c := containers[0].(resource.Tree)
	if text(c, "image") != "i:1" || text(c, "resources", "requests", "cpu") != "2" || text(pod, "spec", "nodeName") != "" {
		t.Errorf("more or less than the resources has changed: %v", pod["spec"])
	}
	if n, _ := get(pod, "metadata", "generation").(int64); n != 3 {
		t.Errorf("generation %d after two changes", n)
	}
}
