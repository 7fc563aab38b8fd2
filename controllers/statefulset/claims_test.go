package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOwners checks owners that scenarios cannot have: those of earlier and of other controllers.
func TestOwners(t *testing.T) {
	const keep = "keep"
	for _, tc := range []struct {
		whenDeleted, whenScaled string
		ordinal                 int
		had, want               string
	}{
		{"Retain", "Retain", 0, "", keep},
		{"Retain", "Retain", 0, "set", ""},
		{"Retain", "Retain", 0, "pod set other", "other"},
		{"Retain", "Retain", 0, "other!", keep},
		{"Retain", "Retain", 0, "old-set", keep},
		{"Delete", "Retain", 0, "", "set!"},
		{"Delete", "Retain", 0, "set!", keep},
		{"Delete", "Retain", 0, "set", "set!"},
		{"Delete", "Retain", 0, "other", "other set!"},
		{"Delete", "Retain", 0, "other!", keep},
		{"Delete", "Retain", 0, "other! set", "other!"},
		{"Delete", "Retain", 0, "old-set!", keep},
		{"Delete", "Retain", 0, "old-pod!", keep},
		{"Delete", "Retain", 9, "", "set!"},
		{"Retain", "Delete", 0, "", keep},
		{"Retain", "Delete", 0, "pod!", ""},
		{"Retain", "Delete", 9, "", "pod!"},
		{"Delete", "Delete", 0, "pod!", "set!"},
		{"Delete", "Delete", 9, "set!", "pod!"},
		{"Delete", "Delete", 9, "other! set!", "other!"},
	} {
		t.Run(fmt.Sprintf("%s %s %d %s", tc.whenDeleted, tc.whenScaled, tc.ordinal, tc.had), func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "set"}}
			set.Spec.Replicas = new(int32(1))
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(tc.whenDeleted),
				WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(tc.whenScaled),
			}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", tc.ordinal), UID: "pod"}}
			c := &corev1.PersistentVolumeClaim{}
			for word := range strings.FieldsSeq(tc.had) {
				c.OwnerReferences = append(c.OwnerReferences, reference(word, p.Name))
			}
			before := slices.Clone(c.OwnerReferences)
			next, ok := owners(c, set, p)
			got := keep
			if !ok {
				var words []string
				for _, ref := range next {
					word := string(ref.UID)
					if isController(ref) {
						word += "!"
					}
					words = append(words, word)
				}
				got = strings.Join(words, " ")
			}
			if got != tc.want {
				t.Errorf("owners %q, want %q", got, tc.want)
			}
			if !slices.EqualFunc(before, c.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
				t.Error("the claim has changed")
			}
		})
	}
}

// reference returns a reference to the object with the uid in word, which ends with ! for a
// controller.
func reference(word, pod string) metav1.OwnerReference {
	uid, controls := strings.CutSuffix(word, "!")
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: uid, UID: types.UID(uid), Controller: &controls}
	switch uid {
	case "set", "old-set":
		ref.APIVersion, ref.Kind, ref.Name = "apps/v1", "StatefulSet", "web"
	case "pod", "old-pod":
		ref.Kind, ref.Name = "Pod", pod
	}
	return ref
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, set string
		ordinal   int
	}{
		{"web-0", "web", 0}, {"web-db-12", "web-db", 12}, {"web-01", "web", 1}, {"web", "", -1}, {"web-", "", -1}, {"web-x", "", -1},
		{"-3", "", 3}, {"web-2147483647", "web", 2147483647}, {"web-2147483648", "web", -1},
	} {
		if set, ordinal := parse(tc.name); set != tc.set || ordinal != tc.ordinal {
			t.Errorf("%s: set %q, ordinal %d; want %q, %d", tc.name, set, ordinal, tc.set, tc.ordinal)
		}
	}
}
