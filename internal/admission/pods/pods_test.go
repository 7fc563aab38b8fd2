package pods

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tree(t *testing.T, text string) resource.Tree {
	t.Helper()
	if text == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := object.DecodeTree(data)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// newState returns a state with objects in YAML: the key is PLURAL/NAME.
func newState(t *testing.T, objects map[string]string) *state.State {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	s, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range objects {
		plural, name, _ := strings.Cut(name, "/")
		obj := tree(t, text)
		metadata := admission.Child(obj, "metadata")
		metadata["name"], metadata["uid"] = name, "uid-of-"+name
		key := object.Key{Resource: schema.GroupResource{Resource: plural}, Name: name}
		stored, err := object.New(key, obj, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Object: stored}}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A write is a request at one plugin.
type write struct {
	resource    string // with a subresource; default pods
	op          resource.Operation
	object, old string
}

// run runs both steps of a plugin, and returns the mutated object as JSON, "" if the plugin does
// not handle the request.
func (w write) run(t *testing.T, p admission.Plugin) (string, error) {
	t.Helper()
	if w.op == "" {
		w.op = resource.OperationCreate
		if w.old != "" {
			w.op = resource.OperationUpdate
		}
	}
	plural, subresource, _ := strings.Cut(w.resource, "/")
	if plural == "" {
		plural = "pods"
	}
	r := &resource.Request{Definition: &resource.Definition{Plural: plural, Namespaced: true}, Version: &resource.Version{Name: "v1"}, Namespace: "ns", Subresource: subresource}
	if !p.Handles(r, w.op) {
		return "", nil
	}
	a := &resource.Admitted{Request: r, Operation: w.op, Object: tree(t, w.object), Old: tree(t, w.old)}
	if m, ok := p.(admission.Mutator); ok {
		if err := m.Mutate(t.Context(), a); err != nil {
			return "", err
		}
	}
	if v, ok := p.(admission.Validator); ok {
		if err := v.Validate(t.Context(), a); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(a.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), nil
}

// A scenario is a request and its outcome at a plugin.
type scenario struct {
	name string
	write
	want string // the object in YAML; "" if the request is not handled, or rejected
	err  string // the error
	code int32  // of the error; 500 for one without a Status
}

// check runs scenarios at a plugin.
func check(t *testing.T, p admission.Plugin, all []scenario) {
	t.Helper()
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.run(t, p)
			want := ""
			if tc.want != "" {
				data, err := json.Marshal(tree(t, tc.want))
				if err != nil {
					t.Fatal(err)
				}
				want = string(data)
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			text, code := "", int32(0)
			if err != nil {
				text, code = err.Error(), 500
			}
			var status apierrors.APIStatus
			if errors.As(err, &status) {
				code = status.Status().Code
			}
			if text != tc.err || code != tc.code {
				t.Errorf("got error %d %s, want %d %s", code, text, tc.code, tc.err)
			}
		})
	}
}

func TestAlwaysPullImages(t *testing.T) {
	const old = `{spec: {initContainers: [{image: b}], containers: [{image: a, imagePullPolicy: Never}], ephemeralContainers: [{image: c}]}}`
	check(t, AlwaysPullImages{}, []scenario{
		{name: "create", write: write{object: `{spec: {initContainers: [{image: b, imagePullPolicy: Never}], containers: [{image: a}, {image: c, imagePullPolicy: IfNotPresent}],
			volumes: [{image: {reference: r, pullPolicy: Never}}, {emptyDir: {}}]}}`},
			want: `{spec: {initContainers: [{image: b, imagePullPolicy: Always}], containers: [{image: a, imagePullPolicy: Always}, {image: c, imagePullPolicy: Always}],
			volumes: [{image: {reference: r, pullPolicy: Always}}, {emptyDir: {}}]}}`},
		{name: "update", write: write{old: old, object: `{spec: {containers: [{image: d, imagePullPolicy: Never}]}}`},
			want: `{spec: {containers: [{image: d, imagePullPolicy: Always}]}}`},
		{name: "without new images", write: write{old: old, object: `{spec: {containers: [{image: c, imagePullPolicy: Never}, {image: b}]}}`},
			want: `{spec: {containers: [{image: c, imagePullPolicy: Never}, {image: b}]}}`},
		{name: "subresource", write: write{resource: "pods/ephemeralcontainers", old: old, object: old}},
		{name: "delete", write: write{op: resource.OperationDelete, old: old}},
		{name: "another kind", write: write{resource: "services", object: old}},
		{name: "a pod without a spec", write: write{object: `{}`}, want: `{}`},
	})
}

// TestAlwaysPullImagesLater checks that a policy is rejected that a later plugin has set.
// Kubernetes answers 500, as the errors are a list.
func TestAlwaysPullImagesLater(t *testing.T) {
	check(t, validating{AlwaysPullImages{}}, []scenario{
		{name: "one", write: write{object: `{metadata: {name: p}, spec: {containers: [{image: a, imagePullPolicy: Never}]}}`},
			err: `pods "p" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"`, code: 500},
		{name: "several", write: write{object: `{metadata: {name: p}, spec: {initContainers: [{image: a}], containers: [{image: a, imagePullPolicy: Always}], volumes: [{image: {pullPolicy: Never}}]}}`},
			err: `[pods "p" is forbidden: spec.initContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always", ` +
				`pods "p" is forbidden: spec.volumes[0].image.pullPolicy: Unsupported value: "Never": supported values: "Always"]`, code: 500},
	})
}

// validating runs a plugin without its Mutate.
type validating struct{ admission.Validator }

func TestLimitPodHardAntiAffinityTopology(t *testing.T) {
	term := func(key string) string {
		return `{metadata: {name: p}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}, {topologyKey: ` + key + `}]}}}}`
	}
	const preferred = `{spec: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{podAffinityTerm: {topologyKey: zone}}]}}}}`
	const rejected = `pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed`
	check(t, LimitPodHardAntiAffinityTopology{}, []scenario{
		{name: "nodes", write: write{object: term("kubernetes.io/hostname")}, want: term("kubernetes.io/hostname")},
		{name: "zones", write: write{object: term("zone")}, err: rejected, code: 403},
		{name: "update", write: write{object: term("zone"), old: term("zone")}, err: rejected, code: 403},
		{name: "preferred", write: write{object: preferred}, want: preferred},
		{name: "none", write: write{object: `{spec: {affinity: null}}`}, want: `{spec: {affinity: null}}`},
		{name: "subresource", write: write{resource: "pods/status", object: term("zone"), old: term("zone")}},
	})
}

func TestExtendedResourceToleration(t *testing.T) {
	const asks = `resources: {requests: {cpu: 1, example.com/b: 1, example.com/a: 1, requests.example.com/x: 1, x.kubernetes.io/y: 1, "example.com/a!": 1}}`
	const tolerations = `[{key: example.com/a, operator: Exists, effect: NoSchedule}, {key: example.com/b, operator: Exists, effect: NoSchedule}]`
	check(t, ExtendedResourceToleration{}, []scenario{
		{name: "containers", write: write{object: `{spec: {containers: [{` + asks + `}]}}`}, want: `{spec: {containers: [{` + asks + `}], tolerations: ` + tolerations + `}}`},
		{name: "init containers", write: write{object: `{spec: {initContainers: [{` + asks + `}]}}`}, want: `{spec: {initContainers: [{` + asks + `}], tolerations: ` + tolerations + `}}`},
		{name: "update", write: write{object: `{spec: {containers: [{` + asks + `}], tolerations: ` + tolerations + `}}`, old: `{}`},
			want: `{spec: {containers: [{` + asks + `}], tolerations: ` + tolerations + `}}`},
		{name: "with others", write: write{object: `{spec: {containers: [{resources: {requests: {example.com/a: 1}}}], tolerations: [
			{key: example.com/a, operator: Exists, effect: NoSchedule, tolerationSeconds: 1}, {key: example.com/a, operator: Exists}]}}`},
			want: `{spec: {containers: [{resources: {requests: {example.com/a: 1}}}], tolerations: [
			{key: example.com/a, operator: Exists, effect: NoSchedule}, {key: example.com/a, operator: Exists}]}}`},
		{name: "limits only", write: write{object: `{spec: {containers: [{resources: {limits: {example.com/a: 1}}}]}}`}, want: `{spec: {containers: [{resources: {limits: {example.com/a: 1}}}]}}`},
		{name: "subresource", write: write{resource: "pods/resize", object: `{spec: {containers: [{` + asks + `}]}}`, old: `{}`}},
	})
}

func TestPodTopologyLabels(t *testing.T) {
	p := PodTopologyLabels{newState(t, map[string]string{
		"nodes/zoned": `{metadata: {labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r, other: x}}}`,
		"nodes/plain": `{metadata: {labels: {other: x}}}`,
	})}
	const labels = `topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r`
	bind := func(metadata, target string) string {
		return `{metadata: {` + metadata + `}, target: {` + target + `}}`
	}
	check(t, p, []scenario{
		{name: "pod", write: write{object: `{spec: {nodeName: zoned}}`}, want: `{metadata: {labels: {` + labels + `}}, spec: {nodeName: zoned}}`},
		{name: "other labels", write: write{object: `{metadata: {labels: {a: b, topology.kubernetes.io/zone: wrong}}, spec: {nodeName: zoned}}`},
			want: `{metadata: {labels: {a: b, ` + labels + `}}, spec: {nodeName: zoned}}`},
		{name: "unbound", write: write{object: `{spec: {}}`}, want: `{spec: {}}`},
		{name: "no labels", write: write{object: `{spec: {nodeName: plain}}`}, want: `{spec: {nodeName: plain}}`},
		{name: "no node", write: write{object: `{spec: {nodeName: gone}}`}, want: `{spec: {nodeName: gone}}`},
		{name: "update", write: write{object: `{spec: {nodeName: zoned}}`, old: `{}`}},
		{name: "binding", write: write{resource: "pods/binding", object: bind("name: p", "kind: Node, name: zoned")}, want: bind("name: p, labels: {"+labels+"}", "kind: Node, name: zoned")},
		{name: "binding to another kind", write: write{resource: "pods/binding", object: bind("name: p", "name: zoned")}, want: bind("name: p", "name: zoned")},
		{name: "legacy binding", write: write{resource: "bindings", object: bind("name: p", "kind: Node, name: zoned")}},
		{name: "eviction", write: write{resource: "pods/eviction", object: `{}`}},
	})
}

func TestPodResizeValidator(t *testing.T) {
	p := PodResizeValidator{newState(t, map[string]string{
		"nodes/one":     `{metadata: {labels: {kubernetes.io/os: linux}}, status: {allocatable: {cpu: "2", memory: 1Gi}}}`,
		"nodes/bare":    `{metadata: {labels: {a: b}}}`,
		"nodes/windows": `{metadata: {labels: {kubernetes.io/os: windows}}, status: {allocatable: {cpu: "2", memory: 1Gi}}}`,
	})}
	pod := func(node, generation, cpu, memory string) string {
		return `{metadata: {name: p, generation: ` + generation + `}, spec: {nodeName: "` + node + `", containers: [
			{name: c, resources: {requests: {cpu: "` + cpu + `", memory: ` + memory + `}}}, {name: d, resources: {requests: {cpu: 500m}}}]}}`
	}
	resize := func(node, cpu, memory string) write {
		return write{resource: "pods/resize", object: pod(node, "2", cpu, memory), old: pod(node, "1", "1", "1Mi")}
	}
	check(t, p, []scenario{
		{name: "fits", write: resize("one", "1500m", "1Gi"), want: pod("one", "2", "1500m", "1Gi")},
		{name: "cpu", write: resize("one", "1501m", "1Gi"),
			err: `pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 2001, allocatable: 2000`, code: 403},
		{name: "both", write: resize("one", "3", "2Gi"),
			err: `pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 3500, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824`, code: 403},
		{name: "a node without resources", write: resize("bare", "1", "0"),
			err: `pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 1500, allocatable: 0`, code: 403},
		{name: "windows", write: resize("windows", "1", "1Mi"), err: `pods "p" is forbidden: pod resize is only supported on linux nodes, node "windows" is "windows"`, code: 403},
		{name: "no node", write: resize("gone", "1", "1Mi"), err: `pods "p" is forbidden: node "gone" not found`, code: 403},
		{name: "unbound", write: resize("", "9", "9Gi"), want: pod("", "2", "9", "9Gi")},
		{name: "unchanged", write: write{resource: "pods/resize", object: pod("gone", "1", "1", "1Mi"), old: pod("gone", "1", "1", "1Mi")}, want: pod("gone", "1", "1", "1Mi")},
		{name: "not a resize", write: write{object: pod("gone", "2", "9", "1Mi"), old: pod("gone", "1", "1", "1Mi")}},
	})
	for cause, w := range map[metav1.CauseType]write{nodeCapacity: resize("one", "9", "1Mi"), unsupportedPlatform: resize("windows", "1", "1Mi")} {
		_, err := w.run(t, p)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || len(status.Status().Details.Causes) != 1 || status.Status().Details.Causes[0].Type != cause {
			t.Errorf("%v does not have the cause %s", err, cause)
		}
	}
}

func TestNodeDeclaredFeatureValidator(t *testing.T) {
	p := NodeDeclaredFeatureValidator{newState(t, map[string]string{
		"nodes/new": `{status: {declaredFeatures: [InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers]}}`,
		"nodes/old": `{}`,
	})}
	pod := func(node, generation, cpu, init string) string {
		return `{metadata: {name: p, generation: ` + generation + `}, spec: {nodeName: "` + node + `", resources: {requests: {cpu: "` + cpu + `"}},
			initContainers: [{name: i, resources: {requests: {cpu: "` + init + `"}}}, {name: s, restartPolicy: Always, resources: {requests: {cpu: "` + generation + `"}}}]}}`
	}
	resize := func(node, cpu, init string) write {
		return write{resource: "pods/resize", object: pod(node, "2", cpu, init), old: pod(node, "1", "1", "1")}
	}
	const lacks = `pods "p" is forbidden: pod update requires features `
	check(t, p, []scenario{
		{name: "declared", write: resize("new", "2", "2"), want: pod("new", "2", "2", "2")},
		{name: "pod level", write: resize("old", "2", "1"), err: lacks + `InPlacePodLevelResourcesVerticalScaling which are not available on node "old"`, code: 403},
		{name: "both", write: resize("old", "2", "2"),
			err: lacks + `InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers which are not available on node "old"`, code: 403},
		{name: "sidecar", write: resize("old", "1", "1"), want: pod("old", "2", "1", "1")},
		{name: "no node", write: resize("gone", "2", "1"), err: `pods "p" is forbidden: node "gone" not found`, code: 403},
		{name: "no node needed", write: resize("gone", "1", "1"), want: pod("gone", "2", "1", "1")},
		{name: "unbound", write: resize("", "2", "2"), want: pod("", "2", "2", "2")},
		{name: "update", write: write{object: pod("old", "2", "2", "1"), old: pod("old", "1", "1", "1")},
			err: lacks + `InPlacePodLevelResourcesVerticalScaling which are not available on node "old"`, code: 403},
		{name: "status", write: write{resource: "pods/status", object: pod("old", "2", "2", "1"), old: pod("old", "1", "1", "1")}},
		{name: "create", write: write{object: pod("old", "2", "2", "1")}},
	})
}
