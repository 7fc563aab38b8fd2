package builtin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestStorageCells(t *testing.T) {
	const created = `creationTimestamp: "2026-05-06T07:03:09Z"` // five minutes ago
	for _, c := range []struct{ plural, obj, want string }{
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
	} {
		var got []string
		for _, cell := range definitionOf(t, c.plural).Storage.Cells(decode(t, c.plural, c.obj), now) {
			got = append(got, fmt.Sprint(cell))
		}
		if got := strings.Join(got, "|"); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.plural, c.obj, got, c.want)
		}
	}
}

// TestNodeRegisters is the life of a node: it comes with its status, which then has a subresource of its own.
func TestNodeRegisters(t *testing.T) {
	s := newServer(t)
	node := s.tree("nodes", s.must(s.create("nodes", `{metadata: {name: n1}, spec: {podCIDR: 10.0.0.0/24, configSource: {}}, status: {capacity: {cpu: "2"}, config: {error: e}}}`)))
	if text(node, "status", "allocatable", "cpu") != "2" || get(node, "spec", "podCIDRs") == nil || get(node, "spec", "configSource") != nil || get(node, "status", "config") != nil {
		t.Errorf("registered: %v", node)
	}
	node = s.tree("nodes", s.must(s.patch("nodes", "n1", "", types.MergePatchType, `{spec: {unschedulable: true}, status: {capacity: {cpu: "4"}}}`)))
	if text(node, "status", "capacity", "cpu") != "2" || get(node, "spec", "unschedulable") != true {
		t.Errorf("cordoned: %v", node)
	}
	node = s.tree("nodes", s.must(s.patch("nodes", "n1", "status", types.MergePatchType, `{spec: {unschedulable: false}, status: {capacity: {cpu: "4"}}}`)))
	if text(node, "status", "capacity", "cpu") != "4" || get(node, "spec", "unschedulable") != true {
		t.Errorf("reported: %v", node)
	}
}

func TestDataSourceIsSaidTwice(t *testing.T) {
	for _, c := range []struct{ spec, old, want string }{
		{`{dataSource: {kind: PersistentVolumeClaim, name: a}}`, ``, `{"dataSource":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"a"}}`},
		{`{dataSource: {kind: Image, apiGroup: e.com, name: a}}`, ``, `{}`},
		{`{dataSource: {kind: Image, apiGroup: e.com, name: a}}`, `{dataSourceRef: {kind: Image, apiGroup: e.com, name: a}}`,
			`{"dataSource":{"apiGroup":"e.com","kind":"Image","name":"a"},"dataSourceRef":{"apiGroup":"e.com","kind":"Image","name":"a"}}`},
		{`{dataSourceRef: {kind: Image, apiGroup: e.com, name: a}}`, ``,
			`{"dataSource":{"apiGroup":"e.com","kind":"Image","name":"a"},"dataSourceRef":{"apiGroup":"e.com","kind":"Image","name":"a"}}`},
		{`{dataSourceRef: {kind: Image, apiGroup: e.com, name: a, namespace: b}}`, ``, `{}`},
	} {
		claim := decode(t, "persistentvolumeclaims", `{metadata: {name: c}, spec: `+c.spec+`}`)
		var old resource.Tree
		if c.old != "" {
			old = decode(t, "persistentvolumeclaims", `{metadata: {name: c}, spec: `+c.old+`}`)
		}
		prepareDataSource(claim, old)
		spec, _ := claim["spec"].(resource.Tree)
		got := resource.Tree{}
		for _, name := range []string{"dataSource", "dataSourceRef"} {
			if spec[name] != nil {
				got[name] = spec[name]
			}
		}
		encoded, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(encoded) != c.want {
			t.Errorf("%s over %s:\n got %s\nwant %s", c.spec, c.old, encoded, c.want)
		}
	}
}

func TestClaimsGrow(t *testing.T) {
	s := newServer(t)
	s.must(s.create("persistentvolumeclaims", `{metadata: {name: c}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`))
	grow := func() error {
		_, err := s.patch("persistentvolumeclaims", "c", "", types.MergePatchType, `{spec: {resources: {requests: {storage: 2Gi}}}}`)
		return err
	}
	if err := grow(); err == nil || !strings.Contains(err.Error(), "spec is immutable after creation") {
		t.Errorf("a claim grows that has no volume: %v", err)
	}
	s.must(s.patch("persistentvolumeclaims", "c", "status", types.MergePatchType, `{status: {phase: Bound, capacity: {storage: 1Gi}}}`))
	const refused = `persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`
	if err := grow(); err == nil || err.Error() != refused {
		t.Errorf("a claim grows without a class: %v", err)
	}
	s.must(s.create("storageclasses", `{metadata: {name: fast}, provisioner: p}`))
	if err := grow(); err == nil || err.Error() != refused {
		t.Errorf("a claim grows although its class does not let it: %v", err)
	}
	s.must(s.patch("storageclasses", "fast", "", types.MergePatchType, `{allowVolumeExpansion: true}`))
	if err := grow(); err != nil {
		t.Error(err)
	}
	s.must(s.store.Delete(t.Context(), s.request("persistentvolumeclaims", "c", ""), &metav1.DeleteOptions{}))
}

func TestPhaseIsTimed(t *testing.T) {
	s := newServer(t)
	v := s.tree("persistentvolumes", s.must(s.create("persistentvolumes", sample(t, "persistentvolumes"))))
	if text(v, "status", "phase") != "Pending" || text(v, "status", "lastPhaseTransitionTime") == "" {
		t.Errorf("created: %v", v["status"])
	}
	const then = "2020-01-02T03:04:05Z"
	for _, c := range []struct {
		patch string
		keeps bool // the time then
	}{
		{`{status: {phase: Bound, lastPhaseTransitionTime: "` + then + `"}}`, true},
		{`{status: {message: m}}`, true},
		{`{status: {phase: Bound, lastPhaseTransitionTime: null}}`, true},
		{`{status: {phase: Released}}`, false},
	} {
		v := s.tree("persistentvolumes", s.must(s.patch("persistentvolumes", "a", "status", types.MergePatchType, c.patch)))
		if got := text(v, "status", "lastPhaseTransitionTime"); got == "" || (got == then) != c.keeps {
			t.Errorf("%s: %s", c.patch, got)
		}
	}
}

func TestSystemPriorityClasses(t *testing.T) {
	s := newServer(t)
	for _, tree := range priorityClassesAtStart() {
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		name := text(tree, "metadata", "name")
		class := s.tree("priorityclasses", s.must(s.create("priorityclasses", string(data))))
		if get(class, "metadata", "generation") != int64(1) || text(class, "preemptionPolicy") != "PreemptLowerPriority" {
			t.Errorf("created: %v", class)
		}
		_, err = s.store.Delete(t.Context(), s.request("priorityclasses", name, ""), &metav1.DeleteOptions{})
		if err == nil || !strings.Contains(err.Error(), "this is a system priority class and cannot be deleted") {
			t.Errorf("%s is deleted: %v", name, err)
		}
	}
	if _, err := s.create("priorityclasses", `{metadata: {name: system-mine}, value: 1}`); err == nil || !strings.Contains(err.Error(), "system-mine is not a known system priority class") {
		t.Errorf("a third system class: %v", err)
	}
}

func TestOneDefaultPriority(t *testing.T) {
	s := newServer(t)
	s.must(s.create("priorityclasses", `{metadata: {name: a}, value: 1, globalDefault: true}`))
	const refused = `priorityclasses.scheduling.k8s.io "b" is forbidden: PriorityClass a is already marked as default. Only one default can exist`
	if _, err := s.create("priorityclasses", `{metadata: {name: b}, value: 2, globalDefault: true}`); err == nil || err.Error() != refused {
		t.Errorf("a second default: %v", err)
	}
	s.must(s.create("priorityclasses", `{metadata: {name: b}, value: 2}`))
	if _, err := s.patch("priorityclasses", "b", "", types.MergePatchType, `{globalDefault: true}`); err == nil || err.Error() != refused {
		t.Errorf("a second default: %v", err)
	}
	s.must(s.patch("priorityclasses", "a", "", types.MergePatchType, `{description: d}`))
	s.must(s.patch("priorityclasses", "a", "", types.MergePatchType, `{globalDefault: false}`))
	s.must(s.patch("priorityclasses", "b", "", types.MergePatchType, `{globalDefault: true}`))
}

// TestRetiredStorage takes the samples through the versions that Kubernetes has retired, and back.
func TestRetiredStorage(t *testing.T) {
	for _, d := range WithRetired() {
		switch d.Group {
		case "storage.k8s.io", "node.k8s.io", "scheduling.k8s.io":
		default:
			continue
		}
		for _, v := range d.Versions[1:] {
			tree := decode(t, d.Plural, sample(t, d.Plural))
			want := runtime.DeepCopyJSON(tree)
			if err := d.Convert(tree, d.Storage, v); err != nil {
				t.Fatal(err)
			}
			if text(tree, "apiVersion") != d.APIVersion(v) {
				t.Errorf("%s is in %v, not in %s", d.Plural, tree["apiVersion"], v.Name)
			}
			if errs := v.Model.Validate(tree, nil, ""); len(errs) > 0 {
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
		for _, d := range WithRetired() {
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

func TestNewestDefaultClass(t *testing.T) {
	s := newServer(t)
	const isDefault = `annotations: {storageclass.kubernetes.io/is-default-class: "true"}`
	var list []*object.Object
	find := definitionOf(t, "storageclasses").Storage.Default
	for _, c := range []struct{ obj, want string }{
		{`{metadata: {name: c}, provisioner: p}`, ""},
		{`{metadata: {name: z, ` + isDefault + `}, provisioner: p}`, "z"},
		{`{metadata: {name: a, ` + isDefault + `}, provisioner: p}`, "a"}, // in the same second, or later
	} {
		list = append(list, s.must(s.create("storageclasses", c.obj)).Object)
		if got := find(list); got != c.want {
			t.Errorf("the default of %d classes is %q, not %q", len(list), got, c.want)
		}
	}
}
