package persistentvolume

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/controllers/internal/storage"

	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// An index has the volumes that any claim may get, by class, access modes and size.
type index struct {
	classes map[string]map[group]*btree.BTreeG[entry]
	entries map[string]place // by name of the volume
}

// A group is the set of further properties that must match exactly.
type group struct {
	access     string // sorted modes
	mode       corev1.PersistentVolumeMode
	attributes string // class of attributes
}

// An entry is a volume in the order of its group.
type entry struct {
	size   resource.Quantity
	name   string
	labels labels.Set
}

// A place is where an entry is.
type place struct {
	class string
	group group
	entry entry
}

func newIndex() *index {
	return &index{classes: map[string]map[group]*btree.BTreeG[entry]{}, entries: map[string]place{}}
}

func less(a, b entry) bool {
	if c := a.size.Cmp(b.size); c != 0 {
		return c < 0
	}
	return a.name < b.name
}

// free reports whether any claim may get a volume.
func free(v *corev1.PersistentVolume) bool {
	return v.Spec.ClaimRef == nil && v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeAvailable
}

// put replaces the entry of a volume in the index.
func (x *index) put(v *corev1.PersistentVolume) {
	x.remove(v.Name)
	if !free(v) {
		return
	}
	p := place{
		class: storage.ClassOfVolume(v),
		group: group{access: modes(v.Spec.AccessModes), mode: modeOf(v.Spec.VolumeMode), attributes: deref(v.Spec.VolumeAttributesClassName)},
		entry: entry{size: v.Spec.Capacity[corev1.ResourceStorage], name: v.Name, labels: v.Labels},
	}
	groups := x.classes[p.class]
	if groups == nil {
		groups = map[group]*btree.BTreeG[entry]{}
		x.classes[p.class] = groups
	}
	if groups[p.group] == nil {
		groups[p.group] = btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	}
	groups[p.group].Set(p.entry)
	x.entries[v.Name] = p
}

// remove removes a volume.
func (x *index) remove(name string) {
	p, ok := x.entries[name]
	if !ok {
		return
	}
	delete(x.entries, name)
	groups := x.classes[p.class]
	groups[p.group].Delete(p.entry)
	if groups[p.group].Len() == 0 {
		delete(groups, p.group)
	}
	if len(groups) == 0 {
		delete(x.classes, p.class)
	}
}

// has reports whether any claim may get a volume.
func (x *index) has(name string) bool { _, ok := x.entries[name]; return ok }

// find returns the smallest volume that is large enough for a claim, of those with the fewest
// access modes, and the number of these.
func (x *index) find(c *corev1.PersistentVolumeClaim, selector labels.Selector) (name string, access int, ok bool) {
	var groups []group
	for g := range x.classes[storage.ClassOf(c)] {
		if g.mode == modeOf(c.Spec.VolumeMode) && g.attributes == deref(c.Spec.VolumeAttributesClassName) && containsModes(g.access, c.Spec.AccessModes) {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(count(a.access), count(b.access)), cmp.Compare(a.access, b.access))
	})
	for _, g := range groups {
		x.classes[storage.ClassOf(c)][g].Ascend(entry{size: c.Spec.Resources.Requests[corev1.ResourceStorage]}, func(e entry) bool {
			if ok = selector.Matches(e.labels); ok {
				name = e.name
			}
			return !ok
		})
		if ok {
			return name, count(g.access), true
		}
	}
	return "", 0, false
}

// modes returns access modes as a text that is equal for equal sets.
func modes(all []corev1.PersistentVolumeAccessMode) string {
	var texts []string
	for _, m := range all {
		texts = append(texts, string(m))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

func count(access string) int { return strings.Count(access, ",") + 1 }

func containsModes(access string, want []corev1.PersistentVolumeAccessMode) bool {
	has := strings.Split(access, ",")
	return !slices.ContainsFunc(want, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(has, string(m)) })
}

func modeOf(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
