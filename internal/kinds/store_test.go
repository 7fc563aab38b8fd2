package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestEveryKindIsWritten runs all kinds of writes on an object of each kind.
func TestEveryKindIsWritten(t *testing.T) {
	s := kindtest.NewServer(t)
	for _, d := range kinds.Definitions() {
		if d.Action != nil {
			continue
		}
		created := s.Must(s.Create(d.Plural, kindtest.Sample(t, d.Plural)))
		revision, name := created.Object.Revision, created.Object.Key.Name
		head := fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: %q, `, d.APIVersion(d.Storage), d.Kind, name)

		again := s.Must(s.Patch(d.Plural, name, "", types.MergePatchType, `{}`))
		if got := again.Object.Revision; got != revision {
			t.Errorf("%s: a patch that changes nothing is a write", d.Plural)
		}
		labelled := s.Tree(d.Plural, s.Must(s.Patch(d.Plural, name, "", types.StrategicMergePatchType, `{metadata: {labels: {l: m}}}`)))
		if kind.Text(labelled, "metadata", "labels", "l") != "m" {
			t.Errorf("%s: labels are %v", d.Plural, kind.Get(labelled, "metadata", "labels"))
		}
		applied := s.Tree(d.Plural, s.Must(s.Patch(d.Plural, name, "", types.ApplyPatchType, head+`annotations: {k: v}}}`)))
		if kind.Text(applied, "metadata", "annotations", "k") != "v" {
			t.Errorf("%s: annotations are %v", d.Plural, kind.Get(applied, "metadata", "annotations"))
		}
		for _, sub := range d.Storage.Subresources {
			if !sub.UpdateOnly && sub.Action == nil {
				s.Must(s.Patch(d.Plural, name, sub.Name, types.MergePatchType, `{metadata: {annotations: {s: t}}}`))
			}
		}
		if _, err := s.Patch(d.Plural, name, "", types.MergePatchType, `{nothing: 1}`); err == nil || !strings.Contains(err.Error(), `unknown field "nothing"`) {
			t.Errorf("%s: an unknown field: %v", d.Plural, err)
		}
		deleted := s.Must(s.Store.Delete(t.Context(), s.Request(d.Plural, name, ""), &metav1.DeleteOptions{}))
		if returned := deleted.Object != nil; returned != (d.Deletion.ReturnsObject || d.Deletion.OrphanByDefault) {
			t.Errorf("%s: deletion returns an object: %v", d.Plural, returned)
		}
	}
}

func TestNamespaceLife(t *testing.T) {
	s := kindtest.NewServer(t)
	options := &metav1.DeleteOptions{}
	gone := s.Tree("namespaces", s.Must(s.Store.Delete(t.Context(), s.Request("namespaces", "ns", ""), options)))
	if kind.Text(gone, "status", "phase") != "Terminating" || kind.Get(gone, "metadata", "deletionTimestamp") == nil {
		t.Errorf("deleted: %v", gone)
	}
	if _, err := s.Create("configmaps", kindtest.Sample(t, "configmaps")); err == nil || !strings.Contains(err.Error(), "because it is being terminated") {
		t.Errorf("a terminating namespace accepts new objects: %v", err)
	}
	s.Must(s.Update("namespaces", "ns", "finalize", `{apiVersion: v1, kind: Namespace, metadata: {name: ns}, spec: {finalizers: []}}`))
	if _, err := s.Store.Get(t.Context(), s.Request("namespaces", "ns", ""), ""); err == nil {
		t.Error("a finalized namespace is still there")
	}
}

func TestDeploymentScale(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("deployments", kindtest.Sample(t, "deployments")))
	scale := s.Must(s.Patch("deployments", "a", "scale", types.MergePatchType, `{spec: {replicas: 5}}`)).Tree
	if kind.Get(scale, "spec", "replicas") != int64(5) || kind.Text(scale, "status", "selector") != "x=z" {
		t.Errorf("scale is %v", scale)
	}
	d := s.Tree("deployments", s.Must(s.Store.Get(t.Context(), s.Request("deployments", "a", ""), "")))
	if kind.Get(d, "spec", "replicas") != int64(5) || kind.Get(d, "metadata", "generation") != int64(2) {
		t.Errorf("deployment is %v", d)
	}
}

func TestStatusIsWrittenApart(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("pods", kindtest.Sample(t, "pods")))
	pod := s.Tree("pods", s.Must(s.Patch("pods", "a", "", types.MergePatchType, `{status: {phase: Running}}`)))
	if phase := kind.Text(pod, "status", "phase"); phase != "Pending" {
		t.Errorf("phase is %s", phase)
	}
	pod = s.Tree("pods", s.Must(s.Patch("pods", "a", "status", types.StrategicMergePatchType, `{spec: {nodeName: node}, status: {phase: Running, podIP: 1.2.3.4}}`)))
	if phase := kind.Text(pod, "status", "phase"); phase != "Running" || kind.Text(pod, "spec", "nodeName") != "" || len(kind.Get(pod, "status", "podIPs").([]any)) != 1 {
		t.Errorf("pod is %v", pod)
	}
	if generation := kind.Get(pod, "metadata", "generation"); generation != int64(1) {
		t.Errorf("generation is %v", generation)
	}
}

// TestStrategicMergeByName patches one of two containers.
func TestStrategicMergeByName(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("deployments", kindtest.Sample(t, "deployments")))
	d := s.Tree("deployments", s.Must(s.Patch("deployments", "a", "", types.StrategicMergePatchType,
		`{spec: {template: {spec: {containers: [{name: d, image: "j:1"}]}}}}`)))
	containers, _ := kind.Get(d, "spec", "template", "spec", "containers").([]any)
	if len(containers) != 2 || kind.Text(containers[0].(resource.Tree), "image") != "j:1" || kind.Text(containers[0].(resource.Tree), "imagePullPolicy") != "IfNotPresent" {
		t.Errorf("containers are %v", containers)
	}
}
