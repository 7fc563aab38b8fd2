package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// fields returns the paths of errors, in their order.
func fields(errs field.ErrorList) string {
	var paths []string
	for _, err := range errs {
		paths = append(paths, err.Field)
	}
	return strings.Join(paths, " ")
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// TestNodesOfVolumesStay checks that only deprecated labels in the node affinity can be replaced.
func TestNodesOfVolumesStay(t *testing.T) {
	volume := func(key, value string) *corev1.PersistentVolume {
		r := corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
		terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{r}}}
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			Capacity: amounts("storage", "1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/d"}},
			NodeAffinity:           &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}},
		}}
	}
	old := volume("beta.kubernetes.io/os", "linux")
	for _, c := range []struct{ key, value, want string }{
		{"beta.kubernetes.io/os", "linux", ""},
		{"kubernetes.io/os", "linux", ""},
		{"kubernetes.io/os", "windows", "nodeAffinity"},
		{"kubernetes.io/arch", "linux", "nodeAffinity"},
		{"", "linux", "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key nodeAffinity"},
	} {
		if got := fields(validatePersistentVolume(volume(c.key, c.value), old)); got != c.want {
			t.Errorf("%s=%s: got %q, want %q", c.key, c.value, got, c.want)
		}
	}
	none := volume("a", "b")
	none.Spec.NodeAffinity = nil
	if got := fields(validatePersistentVolume(none, old)); got != "spec.nodeAffinity nodeAffinity" {
		t.Errorf("no affinity: %s", got)
	}
	wrong := volume("a", "!")
	if got := fields(validatePersistentVolume(wrong, wrong)); got != "" {
		t.Errorf("errors of the old object: %s", got)
	}
}

func TestBoundClaimsGrow(t *testing.T) {
	claim := func(size, has string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = amounts("storage", size)
		c.Status.Phase, c.Status.Capacity = phase, amounts("storage", has)
		return c
	}
	for _, c := range []struct {
		phase     corev1.PersistentVolumeClaimPhase
		had, size string
		want      string
	}{
		{corev1.ClaimPending, "2Gi", "2Gi", ""},
		{corev1.ClaimPending, "2Gi", "3Gi", "spec"},
		{corev1.ClaimBound, "2Gi", "3Gi", ""},
		{corev1.ClaimBound, "4Gi", "3Gi", ""}, // the expansion to 4Gi failed
		{corev1.ClaimBound, "4Gi", "2Gi", "spec.resources.requests.storage"},
	} {
		if got := fields(validatePersistentVolumeClaim(claim(c.size, "2Gi", c.phase), claim(c.had, "2Gi", c.phase))); got != c.want {
			t.Errorf("%s, from %s to %s: got %q, want %q", c.phase, c.had, c.size, got, c.want)
		}
	}
}

func TestDriversOfNodesStay(t *testing.T) {
	node := func(id string, count int32) *storagev1.CSINode {
		return &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "a", NodeID: id, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(count)}},
		}}}
	}
	for _, c := range []struct {
		now  *storagev1.CSINode
		want string
	}{
		{node("x", 5), ""},
		{node("z", 4), "spec.drivers"},
		{&storagev1.CSINode{}, ""},
	} {
		if got := fields(validateCSINode(c.now, node("x", 4))); got != c.want {
			t.Errorf("%v: got %q, want %q", c.now.Spec, got, c.want)
		}
	}
}
