package linear

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// held is the state of the model of one key.
type held struct {
	Object
	newest Revision // of all objects so far
}

// step reports whether a response is correct in a state, and returns the next state.
func (h held) step(o *Operation) (bool, held) {
	there := h.Object != Object{}
	switch o.Outcome {
	case NotFound:
		return !there, h
	case Exists:
		return there, h
	case Conflict:
		return there && !o.meets(h.Object), h
	}
	switch o.Verb {
	case Get:
		return o.Object == h.Object, h
	case Create:
		return !there && o.Object.Revision > h.newest, held{o.Object, o.Object.Revision}
	case Delete:
		return there && o.Object.UID == h.UID && o.meets(h.Object), held{newest: h.newest}
	default:
		return there && o.Object.UID == h.UID && o.Object.Revision > h.newest && o.meets(h.Object),
			held{o.Object, o.Object.Revision}
	}
}

// search has porcupine search an order of the operations on each key. Writes of unknown outcome
// take part if they have happened: their effect may be at any time after the call.
func (l *ledger) search(ops []Operation, patience time.Duration) error {
	keys := map[Key][]porcupine.Operation{}
	add := func(o *Operation) {
		keys[o.Key] = append(keys[o.Key], porcupine.Operation{
			ClientId: o.Client, Input: o, Call: int64(o.Call), Return: int64(o.Return),
		})
	}
	for i := range ops {
		if o := &ops[i]; searched(o) {
			add(o)
		}
	}
	for _, c := range l.revisions {
		if o := c.author; o != nil && o.Outcome == Unknown {
			happened := *o
			happened.Outcome, happened.Object, happened.Return = Done, c.object, never
			add(&happened)
		}
	}
	model := porcupine.Model{
		Init: func() any { return held{} },
		Step: func(state, input, _ any) (bool, any) { return state.(held).step(input.(*Operation)) },
	}
	var errs []error
	for _, k := range slices.SortedFunc(maps.Keys(keys), func(a, b Key) int { return cmp.Compare(a.String(), b.String()) }) {
		switch porcupine.CheckOperationsTimeout(model, keys[k], patience) {
		case porcupine.Illegal:
			errs = append(errs, fmt.Errorf("%s is not linearizable: porcupine finds no order for its %d operations", k, len(keys[k])))
		case porcupine.Unknown:
			errs = append(errs, fmt.Errorf("cannot be checked: porcupine has not finished with the %d operations on %s in %v", len(keys[k]), k, patience))
		}
	}
	return errors.Join(limit(errs)...)
}

// searched reports whether a response depends on the present state of one key.
func searched(o *Operation) bool {
	switch o.Outcome {
	case Unknown, Refused:
		return false
	case Conflict:
		return o.UID != "" || o.Revision != 0
	}
	return o.Verb != List && (o.Mode == "" || o.Mode == Latest)
}
