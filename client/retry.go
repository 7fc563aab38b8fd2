package client

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// How often, and after which pauses, RetryOnConflict tries again: as client-go's retry.DefaultRetry
// has it.
const (
	conflictTries = 5
	conflictPause = 10 * time.Millisecond
)

// RetryOnConflict calls change until it returns something else than a conflict, at most five times,
// with short pauses. change should read the object, change it, and update it. The last conflict is
// returned, as it is; and the context's error if that ends in a pause. A Reconciler needs no such
// loop: it returns the conflict, and is called again. Nor do patches and applies, which do not
// conflict.
func RetryOnConflict(ctx context.Context, change func() error) error {
	for try := 1; ; try++ {
		err := change()
		if !apierrors.IsConflict(err) || try == conflictTries {
			return err
		}
		if !pause(ctx, conflictPause+rand.N(conflictPause/10)) {
			return ctx.Err()
		}
	}
}
