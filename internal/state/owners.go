package state

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/types"
)

// owners is the index of dependents: it maps the uid of an owner to the keys of the live objects
// that name it in their ownerReferences.
type owners map[types.UID]map[object.Key]struct{}

// move updates the index when a key changes from one object to another; nil means absent.
func (w owners) move(key object.Key, from, to *object.Object) {
	if from != nil {
		for _, o := range from.Meta.Owners {
			delete(w[o.UID], key)
			if len(w[o.UID]) == 0 {
				delete(w, o.UID)
			}
		}
	}
	if to != nil {
		for _, o := range to.Meta.Owners {
			keys := w[o.UID]
			if keys == nil {
				keys = map[object.Key]struct{}{}
				w[types.UID(strings.Clone(string(o.UID)))] = keys // cloned because the string shares memory with the object, which may be deleted
			}
			keys[key] = struct{}{}
		}
	}
}

func (w owners) of(uid types.UID) []object.Key {
	keys := make([]object.Key, 0, len(w[uid]))
	for k := range w[uid] {
		keys = append(keys, k)
	}
	return keys
}
