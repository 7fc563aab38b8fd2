package kinds_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestStorageCells(t *testing.T) {
	const created = `creationTimestamp: "2026-05-06T07:03:09Z"` // five minutes ago
	kindtest.Cells(t, []kindtest.CellsCase{
		{"nodes", `{metadata: {name: a, ` + created + `}}`, `a|Unknown|<none>|5m||<none>|<none>|<unknown>|<unknown>|<unknown>`},
		{"nodes", `{metadata: {name: a, labels: {node-role.kubernetes.io/b: "", node-role.kubernetes.io/a: "", kubernetes.io/role: b, node-role.kubernetes.io/: ""}},
			spec: {unschedulable: true}, status: {conditions: [{type: MemoryPressure, status: "True"}, {type: Ready, status: "True"}],
			addresses: [{type: ExternalIP, address: 1.2.3.4}, {type: InternalIP, address: 10.0.0.1}],
			nodeInfo: {kubeletVersion: v1, osImage: o, kernelVersion: k, architecture: arm64, containerRuntimeVersion: c}}}`,
			`a|Ready,SchedulingDisabled|a,b|<unknown>|v1|10.0.0.1|1.2.3.4|o|k (arm64)|c`},
		{"nodes", `{metadata: {name: a}, status: {conditions: [{type: Ready, status: Unknown}]}}`, `a|NotReady|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>`},
		{"persistentvolumes", `{metadata: {name: a, ` + created + `}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany, ReadWriteOnce, ReadWriteMany], claimRef: {namespace: x, name: c},
			storageClassName: s}, status: {reason: r}}`, `a|1Gi|RWO,RWX|Retain|Pending|x/c|s|<unset>|r|5m|Filesystem`},
		{"persistentvolumes", `{metadata: {name: a, deletionTimestamp: "2026-05-06T07:03:09Z", annotations: {volume.beta.kubernetes.io/storage-class: b}},
			spec: {storageClassName: s, volumeAttributesClassName: g, volumeMode: Block}}`, `a|0||Retain|Terminating||b|g||<unknown>|Block`},
		{"persistentvolumeclaims", `{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce]}, status: {capacity: {storage: 1Gi}}}`, `a|Pending|||||<unset>|<unknown>|Filesystem`},
		{"persistentvolumeclaims", `{metadata: {name: a, ` + created + `}, spec: {volumeName: v, storageClassName: s, volumeAttributesClassName: g},
			status: {phase: Bound, capacity: {storage: 1Gi}, accessModes: [ReadOnlyMany, ReadWriteOncePod]}}`, `a|Bound|v|1Gi|ROX,RWOP|s|g|5m|Filesystem`},
		{"resourcequotas", `{metadata: {name: a}, status: {hard: {pods: 5, limits.cpu: 2, cpu: 1, limits.memory: 1Gi}, used: {pods: 1}}}`,
			`a|cpu: 0/1, pods: 1/5|limits.cpu: 0/2, limits.memory: 0/1Gi|<unknown>`},
		{"storageclasses", `{metadata: {name: a}, provisioner: p}`, `a|p|Delete|Immediate|false|<unknown>`},
		{"volumeattachments", `{metadata: {name: a}, spec: {attacher: d, nodeName: m, source: {persistentVolumeName: v}}, status: {attached: true}}`, `a|d|v|m|true|<unknown>`},
		{"volumeattributesclasses", `{metadata: {name: a, ` + created + `}, driverName: d}`, `a|d|5m`},
		{"csinodes", `{metadata: {name: a}, spec: {drivers: [{name: d}, {name: e}]}}`, `a|2|<unknown>`},
		{"csidrivers", `{metadata: {name: a}}`, `a|true|false|false|<unset>|false|Persistent|<unknown>`},
		{"csidrivers", `{metadata: {name: a}, spec: {attachRequired: false, tokenRequests: [{audience: x}, {audience: z}], volumeLifecycleModes: [Persistent, Ephemeral]}}`,
			`a|false|false|false|x,z|false|Persistent,Ephemeral|<unknown>`},
		{"runtimeclasses", `{metadata: {name: a}, handler: h}`, `a|h|<unknown>`},
		{"priorityclasses", `{metadata: {name: a}, value: 7, globalDefault: true}`, `a|7|true|<unknown>|PreemptLowerPriority`},
	})
}

// TestNodeRegisters checks that a node is created with its status, which is then written through
// its subresource.
func TestNodeRegisters(t *testing.T) {
	s := kindtest.NewServer(t)
	node := s.Tree("nodes", s.Must(s.Create("nodes", `{metadata: {name: n1}, spec: {podCIDR: 10.0.0.0/24, configSource: {}}, status: {capacity: {cpu: "2"}, config: {error: e}}}`)))
	if kind.Text(node, "status", "allocatable", "cpu") != "2" || kind.Get(node, "spec", "podCIDRs") == nil || kind.Get(node, "spec", "configSource") != nil || kind.Get(node, "status", "config") != nil {
		t.Errorf("registered: %v", node)
	}
	node = s.Tree("nodes", s.Must(s.Patch("nodes", "n1", "", types.MergePatchType, `{spec: {unschedulable: true}, status: {capacity: {cpu: "4"}}}`)))
	if kind.Text(node, "status", "capacity", "cpu") != "2" || kind.Get(node, "spec", "unschedulable") != true {
		t.Errorf("cordoned: %v", node)
	}
	node = s.Tree("nodes", s.Must(s.Patch("nodes", "n1", "status", types.MergePatchType, `{spec: {unschedulable: false}, status: {capacity: {cpu: "4"}}}`)))
	if kind.Text(node, "status", "capacity", "cpu") != "4" || kind.Get(node, "spec", "unschedulable") != true {
		t.Errorf("reported: %v", node)
	}
}

// TestRetiredStorage converts the samples to retired versions and back.
func TestRetiredStorage(t *testing.T) {
	for _, d := range kinds.WithRetired() {
		switch d.Group {
		case "storage.k8s.io", "node.k8s.io", "scheduling.k8s.io":
		default:
			continue
		}
		for _, v := range d.Versions[1:] {
			tree := kindtest.Decode(t, d.Plural, kindtest.Sample(t, d.Plural))
			want := runtime.DeepCopyJSON(tree)
			if err := d.Convert(tree, d.Storage, v); err != nil {
				t.Fatal(err)
			}
			if kind.Text(tree, "apiVersion") != d.APIVersion(v) {
				t.Errorf("%s is in %v, not in %s", d.Plural, tree["apiVersion"], v.Name)
			}
			if errs := v.Model.Validate(t.Context(), tree, nil, ""); len(errs) > 0 {
				t.Errorf("%s in %s: %v", d.Plural, v.Name, errs)
			}
			if err := d.Convert(tree, v, d.Storage); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, tree); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", d.Plural, v.Name, diff)
			}
		}
	}
}

func TestStorageDefinitions(t *testing.T) {
	for _, c := range []struct{ plural, shorts, subresources, retired string }{
		{"nodes", "no", "status", ""},
		{"persistentvolumes", "pv", "status", ""},
		{"persistentvolumeclaims", "pvc", "status", ""},
		{"limitranges", "limits", "", ""},
		{"resourcequotas", "quota", "status", ""},
		{"storageclasses", "sc", "", "v1beta1"},
		{"volumeattachments", "", "status", "v1beta1"},
		{"volumeattributesclasses", "vac", "", "v1beta1"},
		{"csinodes", "", "status", "v1beta1"},
		{"csidrivers", "", "", "v1beta1"},
		{"csistoragecapacities", "", "", "v1beta1"},
		{"runtimeclasses", "", "", "v1beta1"},
		{"priorityclasses", "pc", "", "v1beta1"},
	} {
		for _, d := range kinds.WithRetired() {
			if d.Plural != c.plural {
				continue
			}
			var subresources, retired []string
			for _, s := range d.Storage.Subresources {
				subresources = append(subresources, s.Name)
			}
			for _, v := range d.Versions[1:] {
				retired = append(retired, v.Name)
			}
			got := []string{strings.Join(d.ShortNames, " "), strings.Join(subresources, " "), strings.Join(retired, " ")}
			if want := []string{c.shorts, c.subresources, c.retired}; strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("%s: got %q, want %q", c.plural, got, want)
			}
		}
	}
}
