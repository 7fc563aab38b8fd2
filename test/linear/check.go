package linear

import (
	"errors"
	"fmt"
	"time"
)

// patience bounds porcupine's search for one key.
const patience = time.Minute

// ErrUndecided is returned by Check for a history that is incomplete: all watchers got 410 Gone at
// one time.
var ErrUndecided = errors.New("the history cannot be checked")

// Check returns nil if a history is linearizable and its watchers received it correctly. The error
// lists violations; later ones may follow from the first.
func Check(r *Report) error {
	l, err := newLedger(r)
	errs := []error{err, l.audit(r.Operations), l.guarantees(r)}
	bounds, err := l.order(r)
	if err := l.decidable(r, bounds); err != nil {
		return fmt.Errorf("seed %d: %w", r.Seed, err)
	}
	errs = append(errs, err, l.settle(r.Operations, bounds), l.search(r.Operations, patience))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("seed %d: %w", r.Seed, err)
	}
	return nil
}
