package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) resource.Tree {
	t.Helper()
	var tree resource.Tree
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestUsage checks the use of objects by the names in quotas, which is that of
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core.
func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		gr   schema.GroupResource
		obj  string
		want string
	}{
		{"a pod that asks for nothing", pods, `{spec: {containers: [{name: c}]}}`, "count/pods=1 pods=1"},
		{"requests and limits", pods, `{spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 1}}}, {name: d, resources: {requests: {cpu: 200m}}}]}}`,
			"count/pods=1 cpu=300m limits.cpu=1 memory=1Gi pods=1 requests.cpu=300m requests.memory=1Gi"},
		{"init containers", pods, `{spec: {initContainers: [{name: i, resources: {requests: {cpu: 2}}}, {name: j, resources: {requests: {cpu: 3}}}], containers: [{name: c, resources: {requests: {cpu: 1}}}]}}`,
			"count/pods=1 cpu=3 pods=1 requests.cpu=3"},
		{"overhead", pods, `{spec: {overhead: {cpu: 50m}, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}`, "count/pods=1 cpu=1050m pods=1 requests.cpu=1050m"},
		{"of the pod as a whole", pods, `{spec: {resources: {requests: {cpu: 5}}, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}`, "count/pods=1 cpu=5 pods=1 requests.cpu=5"},
		{"other resources", pods, `{spec: {containers: [{name: c, resources: {requests: {ephemeral-storage: 1Gi, hugepages-2Mi: 4Mi, example.com/gpu: 2, kubernetes.io/x: 1}, limits: {ephemeral-storage: 2Gi}}}]}}`,
			"count/pods=1 ephemeral-storage=1Gi hugepages-2Mi=4Mi limits.ephemeral-storage=2Gi pods=1 requests.ephemeral-storage=1Gi requests.example.com/gpu=2 requests.hugepages-2Mi=4Mi"},
		{"a pod that has ended", pods, `{spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}, status: {phase: Failed}}`, "count/pods=1"},
		{"a service", services, `{spec: {ports: [{port: 1}]}}`, "count/services=1 services.loadbalancers=0 services.nodeports=0 services=1"},
		{"node ports", services, `{spec: {type: NodePort, ports: [{port: 1}, {port: 2}]}}`, "count/services=1 services.loadbalancers=0 services.nodeports=2 services=1"},
		{"a balancer without node ports", services, `{spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1, nodePort: 9}, {port: 2}]}}`,
			"count/services=1 services.loadbalancers=1 services.nodeports=1 services=1"},
		{"a claim", volumes, `{spec: {storageClassName: gold, resources: {requests: {storage: 1500m}}}}`,
			"count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=2 persistentvolumeclaims=1 requests.storage=2"},
		{"a claim that was given more", volumes, `{spec: {resources: {requests: {storage: 1Gi}}}, status: {allocatedResources: {storage: 2Gi}}}`,
			"count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=2Gi"},
		{"devices", devices, `{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}, {name: b, firstAvailable: [{name: s, deviceClassName: gpu, allocationMode: ExactCount, count: 1}, {name: t, deviceClassName: nic, allocationMode: All}]}]}}}`,
			"count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=3 nic.deviceclass.resource.k8s.io/devices=32"},
		{"a map", schema.GroupResource{Resource: "configmaps"}, `{}`, "configmaps=1 count/configmaps=1"},
		{"any object", schema.GroupResource{Group: "example.com", Resource: "foos"}, `{}`, "count/foos.example.com=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj, err := measure(tc.gr, parse(t, tc.obj))
			if err != nil {
				t.Fatal(err)
			}
			used := obj.usage()
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(used)) {
				q := used[name]
				parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
				if !measures(tc.gr, name) || !slices.Contains(usersOf(name), tc.gr) {
					t.Errorf("%s is used, but unknown as a use of these objects", name)
				}
			}
			slices.SortFunc(parts, strings.Compare)
			if got := strings.Join(parts, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	for _, tc := range []struct {
		obj, scope string
		gr         schema.GroupResource
		want       bool
	}{
		{`{spec: {activeDeadlineSeconds: 0}}`, `{scopeName: Terminating, operator: Exists}`, pods, true},
		{`{spec: {}}`, `{scopeName: NotTerminating, operator: Exists}`, pods, true},
		{`{status: {qosClass: BestEffort}}`, `{scopeName: BestEffort, operator: Exists}`, pods, true},
		{`{status: {qosClass: Burstable}}`, `{scopeName: BestEffort, operator: Exists}`, pods, false},
		{`{spec: {priorityClassName: a}}`, `{scopeName: PriorityClass, operator: In, values: [a, b]}`, pods, true},
		{`{spec: {priorityClassName: a}}`, `{scopeName: PriorityClass, operator: NotIn, values: [a]}`, pods, false},
		{`{spec: {}}`, `{scopeName: PriorityClass, operator: NotIn, values: [a]}`, pods, true},
		{`{spec: {}}`, `{scopeName: PriorityClass, operator: Exists}`, pods, false},
		{`{spec: {}}`, `{scopeName: PriorityClass, operator: DoesNotExist}`, pods, true},
		{`{spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaceSelector: {}}]}}}}`,
			`{scopeName: CrossNamespacePodAffinity, operator: Exists}`, pods, true},
		{`{spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}}}`,
			`{scopeName: CrossNamespacePodAffinity, operator: Exists}`, pods, false},
		{`{spec: {volumeAttributesClassName: gold}}`, `{scopeName: VolumeAttributesClass, operator: In, values: [gold]}`, volumes, true},
		{`{spec: {}, status: {currentVolumeAttributesClassName: gold}}`, `{scopeName: VolumeAttributesClass, operator: Exists}`, volumes, true},
		{`{spec: {}}`, `{scopeName: BestEffort, operator: Exists}`, services, false},
	} {
		obj, err := measure(tc.gr, parse(t, tc.obj))
		if err != nil {
			t.Fatal(err)
		}
		var scope corev1.ScopedResourceSelectorRequirement
		if err := yaml.Unmarshal([]byte(tc.scope), &scope); err != nil {
			t.Fatal(err)
		}
		if got := obj.in(scope); got != tc.want {
			t.Errorf("%s is in %s: %v", tc.obj, tc.scope, got)
		}
	}
}
