package pods_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// act runs an action of a pod with the given body.
func act(s *kindtest.Server, name, subresource, text string) (resource.Result, error) {
	return s.Store.Create(s.T.Context(), s.Request("pods", name, subresource), s.Body(text))
}

func TestBinding(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("pods", `{metadata: {name: p}, spec: {containers: [`+kindtest.Container+`]}}`))
	s.Must(s.Create("pods", `{metadata: {name: gated}, spec: {schedulingGates: [{name: a}], containers: [`+kindtest.Container+`]}}`))
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
		_, err := act(s, c.pod, "binding", c.body)
		if got := kindtest.Message(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
	pod := s.Get("pods", "p")
	if kind.Text(pod, "spec", "nodeName") != "n1" || kind.Text(pod, "metadata", "labels", "zone") != "z" || kind.Text(pod, "metadata", "annotations", "why") != "because" {
		t.Errorf("the pod does not show its binding: %v", pod)
	}
	if n, _ := kind.Get(pod, "metadata", "generation").(int64); n != 1 {
		t.Errorf("generation %d", n)
	}
	for _, entry := range kind.Get(pod, "metadata", "managedFields").([]any) {
		if kind.Text(entry.(resource.Tree), "subresource") != "" {
			t.Errorf("the binding has added a field manager: %v", entry)
		}
	}
}

func TestEviction(t *testing.T) {
	s := kindtest.NewServer(t)
	if s.Store.Registry().Load().Resource(pods.Budgets) == nil {
		s.Store.Registry().Put(kind.Kind[*policyv1.PodDisruptionBudget]{
			Version: policyv1.SchemeGroupVersion, Plural: "poddisruptionbudgets", Status: &kind.Status[*policyv1.PodDisruptionBudget]{},
		}.Definition(kind.Versioning{}))
	}
	aboutBudget := func(name, subresource string) *resource.Request {
		r := *s.Request("pods", name, subresource)
		r.Definition = s.Store.Registry().Load().Resource(pods.Budgets)
		r.Version = r.Definition.Storage
		return &r
	}
	budget := func(name, match, status string) {
		s.Must(s.Store.Create(t.Context(), aboutBudget("", ""), s.Body(`{metadata: {name: `+name+`}, spec: {minAvailable: 2, selector: {matchLabels: {`+match+`}}}}`)))
		patch := resource.Patch{Type: types.MergePatchType, Data: s.Body(`{status: {observedGeneration: 1, expectedPods: 3, ` + status + `}}`).Data}
		s.Must(s.Store.Patch(t.Context(), aboutBudget(name, "status"), patch))
	}
	pod := func(name, labels, status string) {
		s.Must(s.Create("pods", `{metadata: {name: `+name+`, labels: {`+labels+`}}, spec: {containers: [`+kindtest.Container+`]}}`))
		s.Must(s.Patch("pods", name, "status", types.MergePatchType, `{status: {`+status+`}}`))
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
		_, err := act(s, c.pod, "eviction", `{metadata: {name: `+c.pod+`}, deleteOptions: `+c.options+`}`)
		if got := kindtest.Message(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q", c.pod, c.options, got, c.want)
		}
		if gone := s.Get("pods", c.pod) == nil; gone != c.gone {
			t.Errorf("%s %s: gone %v", c.pod, c.options, gone)
		}
	}
	result := s.Must(s.Store.Get(t.Context(), aboutBudget("one", ""), ""))
	one, err := resource.TreeOf(aboutBudget("", "").Definition, aboutBudget("", "").Version, result.Object)
	if err != nil {
		t.Fatal(err)
	}
	status := one["status"].(resource.Tree)
	if allowed, _ := status["disruptionsAllowed"].(int64); allowed != 0 || kind.Text(status, "disruptedPods", "first") == "" {
		t.Errorf("the budget does not count the disruption: %v", status)
	}
	if _, err := act(s, "guarded", "eviction", `{metadata: {name: guarded}}`); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the error does not make clients retry: %v", err)
	}
}

func TestEphemeralContainersAndResize(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("pods", `{metadata: {name: p}, spec: {containers: [{name: c, image: "i:1", resources: {requests: {cpu: 1}}}]}}`))
	for _, c := range []struct{ subresource, patch, want string }{
		{"ephemeralcontainers", `{spec: {nodeName: n1, ephemeralContainers: [{name: debug, image: d}]}}`, ""},
		{"ephemeralcontainers", `{spec: {ephemeralContainers: [{name: debug, image: e}]}}`, "may not be changed"},
		{"ephemeralcontainers", `{spec: {ephemeralContainers: [{name: c, image: e}]}}`, "Duplicate value"},
		{"resize", `{spec: {containers: [{name: c, image: other, resources: {requests: {cpu: 2}}}]}}`, ""},
		{"resize", `{spec: {containers: [{name: c, resources: {requests: {cpu: 2, memory: 1Gi, ephemeral-storage: 1Gi}}}]}}`, "only cpu and memory resources are mutable"},
		{"resize", `{spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 2, memory: 1Gi}}}]}}`, "Pod QOS Class may not change"},
	} {
		_, err := s.Patch("pods", "p", c.subresource, types.StrategicMergePatchType, c.patch)
		if got := kindtest.Message(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q", c.subresource, c.patch, got, c.want)
		}
	}
	pod := s.Get("pods", "p")
	containers := kind.Get(pod, "spec", "containers").([]any)
	c := containers[0].(resource.Tree)
	if kind.Text(c, "image") != "i:1" || kind.Text(c, "resources", "requests", "cpu") != "2" || kind.Text(pod, "spec", "nodeName") != "" {
		t.Errorf("other fields than the resources have changed: %v", pod["spec"])
	}
	if n, _ := kind.Get(pod, "metadata", "generation").(int64); n != 3 {
		t.Errorf("generation %d after two changes", n)
	}
}
