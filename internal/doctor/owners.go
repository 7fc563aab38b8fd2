package doctor

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/types"
)

// owners compares the index of dependents with the objects. The index is always
// the newest, so differences are checked again where nothing can come between.
func (e *examination) owners() error {
	dependents := map[types.UID]int{} // by owner, how many the objects say there are
	for _, table := range e.tables {
		for o := range table.All("") {
			for uid := range ownersOf(o) {
				dependents[uid]++
			}
			if _, ok := dependents[o.Meta.UID]; !ok && o.Meta.UID != "" {
				dependents[o.Meta.UID] = 0 // it should own nothing
			}
		}
	}
	suspects := map[types.UID]map[object.Key]bool{}
	n := 0
	for uid, want := range dependents {
		if n++; n%ctxEvery == 0 && e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		keys := e.state.Dependents(uid)
		fits := len(keys) == want
		for _, key := range keys {
			o, _ := e.state.Get(key)
			fits = fits && o != nil && owns(uid, o)
		}
		if fits {
			continue
		}
		suspects[uid] = map[object.Key]bool{}
		for _, key := range keys {
			suspects[uid][key] = true
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	for _, table := range e.tables {
		for o := range table.All("") {
			for uid := range ownersOf(o) {
				if keys := suspects[uid]; keys != nil {
					keys[o.Key] = true
				}
			}
		}
	}
	for uid, keys := range suspects {
		for key := range keys {
			if e.ctx.Err() != nil {
				return e.ctx.Err()
			}
			e.dependent(uid, key)
		}
	}
	return nil
}

// dependent compares index and object for one owner of one object, at one revision.
// It gives up if writes keep coming between: an index that is wrong stays wrong, and
// is found the next time.
func (e *examination) dependent(uid types.UID, key object.Key) {
	for range 100 * patience {
		before := e.state.Revision()
		indexed := slices.Contains(e.state.Dependents(uid), key)
		o, after := e.state.Get(key)
		if before != after {
			continue
		}
		owned := o != nil && owns(uid, o)
		switch {
		case indexed && !owned:
			e.problem(key, 0, "the owner index lists it as a dependent of %s, but the object does not name that owner", uid)
		case owned && !indexed:
			e.problem(key, 0, "the owner index does not list it as a dependent of %s", uid)
		}
		return
	}
}

func owns(uid types.UID, o *object.Object) bool {
	return slices.ContainsFunc(o.Meta.Owners, func(owner object.Owner) bool { return owner.UID == uid })
}

// ownersOf returns the owners of an object, each once.
func ownersOf(o *object.Object) map[types.UID]struct{} {
	if len(o.Meta.Owners) == 0 {
		return nil
	}
	all := map[types.UID]struct{}{}
	for _, owner := range o.Meta.Owners {
		all[owner.UID] = struct{}{}
	}
	return all
}
