package linear

import (
	"errors"
	"fmt"
	"time"
)

// patience is how long porcupine may take for one key.
const patience = time.Minute

// ErrUndecided is returned by Check for a history that lacks what it would be
// judged by: all watchers were told at one time that history is gone.
var ErrUndecided = errors.New("the history cannot be judged")

// Check says whether a history is linearizable and whether its watchers were told
// the truth. The error tells what is wrong first; what comes of it may follow.
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
