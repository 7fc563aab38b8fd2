package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// fields are the paths of errors, in order.
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

// TestResourceNames says of names whether they are good in a limit range of claims, in a quota, and for containers.
func TestResourceNames(t *testing.T) {
	for _, c := range []struct {
		name                        corev1.ResourceName
		known, inQuota, ofContainer bool
	}{
		{"cpu", true, true, true},
		{"storage", true, false, false},
		{"pods", true, true, false},
		{"requests.cpu", true, true, false},
		{"hugepages-2Mi", true, true, true},
		{"requests.hugepages-2Mi", true, true, false},
		{"gpu", false, false, false},
		{"a b", false, false, false},
		{"example.com/gpu", true, true, true},
		{"requests.example.com/gpu", true, true, false},
		{"count/pods", true, true, true},
		{"kubernetes.io/x", true, true, true},
	} {
		got := [3]bool{
			len(validateKnownResource(c.name, nil)) == 0, len(validateQuotaResource(c.name, nil)) == 0, len(validateOfContainer(c.name, nil)) == 0,
		}
		if want := [3]bool{c.known, c.inQuota, c.ofContainer}; got != want {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}

func TestLimitRatio(t *testing.T) {
	for _, c := range []struct {
		ratio, least, most string
		ok                 bool
	}{
		{"2", "1Gi", "2Gi", true},
		{"2100m", "1Gi", "2Gi", false},
		{"1", "4Ei", "7Ei", true}, // thousandths of these have no room
		{"2", "4Ei", "7Ei", false},
		{"1500m", "100m", "150m", true},
	} {
		item := corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: amounts("memory", c.least), Max: amounts("memory", c.most), MaxLimitRequestRatio: amounts("memory", c.ratio)}
		errs := LimitRange(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}, nil)
		if len(errs) == 0 != c.ok {
			t.Errorf("%s of %s to %s: %v", c.ratio, c.least, c.most, errs)
		}
	}
}

// TestNodesOfVolumesStay: labels may be called as they are now, and that is all.
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
		if got := fields(PersistentVolume(volume(c.key, c.value), old)); got != c.want {
			t.Errorf("%s=%s: got %q, want %q", c.key, c.value, got, c.want)
		}
	}
	none := volume("a", "b")
	none.Spec.NodeAffinity = nil
	if got := fields(PersistentVolume(none, old)); got != "spec.nodeAffinity nodeAffinity" {
		t.Errorf("no affinity: %s", got)
	}
	wrong := volume("a", "!")
	if got := fields(PersistentVolume(wrong, wrong)); got != "" {
		t.Errorf("what was wrong before: %s", got)
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
		{corev1.ClaimBound, "4Gi", "3Gi", ""}, // expansion failed at 4Gi
		{corev1.ClaimBound, "4Gi", "2Gi", "spec.resources.requests.storage"},
	} {
		if got := fields(PersistentVolumeClaim(claim(c.size, "2Gi", c.phase), claim(c.had, "2Gi", c.phase))); got != c.want {
			t.Errorf("%s, from %s to %s: got %q, want %q", c.phase, c.had, c.size, got, c.want)
		}
	}
}

func TestSystemPrefix(t *testing.T) {
	for _, c := range []struct {
		class schedulingv1.PriorityClass
		want  string
	}{
		{SystemPriorityClasses()[0], ""},
		{SystemPriorityClasses()[1], ""},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 1}, "metadata.name"},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-x"}, Value: 1}, "metadata.name"},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Value: highestUserPriority}, ""},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Value: highestUserPriority + 1}, "value"},
	} {
		if got := fields(PriorityClass(&c.class, nil)); got != c.want {
			t.Errorf("%s of %d: got %q, want %q", c.class.Name, c.class.Value, got, c.want)
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
		if got := fields(CSINode(c.now, node("x", 4))); got != c.want {
			t.Errorf("%v: got %q, want %q", c.now.Spec, got, c.want)
		}
	}
}
