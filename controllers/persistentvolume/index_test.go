package persistentvolume

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// TestIndex compares the index with a search of all volumes.
func TestIndex(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	access := [][]corev1.PersistentVolumeAccessMode{
		{corev1.ReadWriteOnce}, {corev1.ReadOnlyMany, corev1.ReadWriteOnce}, {corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany},
	}
	x := newIndex()
	all := map[string]*volume{}
	for range 5000 {
		v := &volume{}
		v.Name = fmt.Sprint("v", r.IntN(200))
		v.Status.Phase = corev1.VolumeAvailable
		if r.IntN(4) == 0 {
			v.Spec.ClaimRef = &corev1.ObjectReference{Name: "other"}
		}
		v.Labels = map[string]string{"l": fmt.Sprint(r.IntN(3))}
		v.Spec.StorageClassName = fmt.Sprint("c", r.IntN(3))
		v.Spec.AccessModes = access[r.IntN(3)]
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(1+r.IntN(20)), resource.BinarySI)}
		x.put(v)
		all[v.Name] = v
		if r.IntN(3) == 0 {
			x.remove(v.Name)
			delete(all, v.Name)
		}
		c := &claim{}
		c.Spec.StorageClassName = new(fmt.Sprint("c", r.IntN(3)))
		c.Spec.AccessModes = access[r.IntN(3)]
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(1+r.IntN(20)), resource.BinarySI)}
		selector := labels.Everything()
		if r.IntN(2) == 0 {
			selector = labels.SelectorFromSet(labels.Set{"l": fmt.Sprint(r.IntN(3))})
		}
		var best *volume
		for _, v := range all {
			if !free(v) || mismatch(v, c) != "" || !selector.Matches(labels.Set(v.Labels)) {
				continue
			}
			if best == nil || before(v, best) {
				best = v
			}
		}
		name, _, ok := x.find(c, selector)
		if ok != (best != nil) || ok && name != best.Name {
			t.Fatalf("found %q, want %v", name, best)
		}
	}
}

func before(a, b *volume) bool {
	if n, m := len(a.Spec.AccessModes), len(b.Spec.AccessModes); n != m {
		return n < m
	}
	if c := a.Spec.Capacity.Storage().Cmp(b.Spec.Capacity[corev1.ResourceStorage]); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}
