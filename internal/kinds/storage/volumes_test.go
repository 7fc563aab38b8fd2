package storage_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDataSourcesAgree(t *testing.T) {
	for _, c := range []struct{ spec, old, want string }{
		{`{dataSource: {kind: PersistentVolumeClaim, name: a}}`, ``, `{"dataSource":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"a"}}`},
		{`{dataSource: {kind: Image, apiGroup: e.com, name: a}}`, ``, `{}`},
		{`{dataSource: {kind: Image, apiGroup: e.com, name: a}}`, `{dataSourceRef: {kind: Image, apiGroup: e.com, name: a}}`,
			`{"dataSource":{"apiGroup":"e.com","kind":"Image","name":"a"},"dataSourceRef":{"apiGroup":"e.com","kind":"Image","name":"a"}}`},
		{`{dataSourceRef: {kind: Image, apiGroup: e.com, name: a}}`, ``,
			`{"dataSource":{"apiGroup":"e.com","kind":"Image","name":"a"},"dataSourceRef":{"apiGroup":"e.com","kind":"Image","name":"a"}}`},
		{`{dataSourceRef: {kind: Image, apiGroup: e.com, name: a, namespace: b}}`, ``, `{}`},
	} {
		claim := kindtest.Decode(t, "persistentvolumeclaims", `{metadata: {name: c}, spec: `+c.spec+`}`)
		var old resource.Tree
		if c.old != "" {
			old = kindtest.Decode(t, "persistentvolumeclaims", `{metadata: {name: c}, spec: `+c.old+`}`)
		}
		storage.PrepareDataSource(claim, old)
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
	s := kindtest.NewServer(t)
	s.Must(s.Create("persistentvolumeclaims", `{metadata: {name: c}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`))
	grow := func() error {
		_, err := s.Patch("persistentvolumeclaims", "c", "", types.MergePatchType, `{spec: {resources: {requests: {storage: 2Gi}}}}`)
		return err
	}
	if err := grow(); err == nil || !strings.Contains(err.Error(), "spec is immutable after creation") {
		t.Errorf("a claim without a volume grows: %v", err)
	}
	s.Must(s.Patch("persistentvolumeclaims", "c", "status", types.MergePatchType, `{status: {phase: Bound, capacity: {storage: 1Gi}}}`))
	const refused = `persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`
	if err := grow(); err == nil || err.Error() != refused {
		t.Errorf("a claim grows without a class: %v", err)
	}
	s.Must(s.Create("storageclasses", `{metadata: {name: fast}, provisioner: p}`))
	if err := grow(); err == nil || err.Error() != refused {
		t.Errorf("a claim grows although its class does not let it: %v", err)
	}
	s.Must(s.Patch("storageclasses", "fast", "", types.MergePatchType, `{allowVolumeExpansion: true}`))
	if err := grow(); err != nil {
		t.Error(err)
	}
	s.Must(s.Store.Delete(t.Context(), s.Request("persistentvolumeclaims", "c", ""), &metav1.DeleteOptions{}))
}

func TestPhaseIsTimed(t *testing.T) {
	s := kindtest.NewServer(t)
	v := s.Tree("persistentvolumes", s.Must(s.Create("persistentvolumes", kindtest.Sample(t, "persistentvolumes"))))
	if kind.Text(v, "status", "phase") != "Pending" || kind.Text(v, "status", "lastPhaseTransitionTime") == "" {
		t.Errorf("created: %v", v["status"])
	}
	const then = "2020-01-02T03:04:05Z"
	for _, c := range []struct {
		patch string
		keeps bool // the transition time is kept
	}{
		{`{status: {phase: Bound, lastPhaseTransitionTime: "` + then + `"}}`, true},
		{`{status: {message: m}}`, true},
		{`{status: {phase: Bound, lastPhaseTransitionTime: null}}`, true},
		{`{status: {phase: Released}}`, false},
	} {
		v := s.Tree("persistentvolumes", s.Must(s.Patch("persistentvolumes", "a", "status", types.MergePatchType, c.patch)))
		if got := kind.Text(v, "status", "lastPhaseTransitionTime"); got == "" || (got == then) != c.keeps {
			t.Errorf("%s: %s", c.patch, got)
		}
	}
}

func TestNewestDefaultClass(t *testing.T) {
	s := kindtest.NewServer(t)
	const isDefault = `annotations: {storageclass.kubernetes.io/is-default-class: "true"}`
	var list []*object.Object
	find := kindtest.Definition(t, "storageclasses").Storage.Default
	for _, c := range []struct{ obj, want string }{
		{`{metadata: {name: c}, provisioner: p}`, ""},
		{`{metadata: {name: z, ` + isDefault + `}, provisioner: p}`, "z"},
		{`{metadata: {name: a, ` + isDefault + `}, provisioner: p}`, "a"}, // created in the same second, or later
	} {
		list = append(list, s.Must(s.Create("storageclasses", c.obj)).Object)
		if got := find(list); got != c.want {
			t.Errorf("the default of %d classes is %q, not %q", len(list), got, c.want)
		}
	}
}
