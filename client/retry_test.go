package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Conflicts are tried again, a few times.
func TestRetryOnConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflict := apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("old"))
		for _, test := range []struct{ conflicts, calls int }{{0, 1}, {3, 4}, {100, 5}} {
			calls, start := 0, time.Now()
			err := client.RetryOnConflict(t.Context(), func() error {
				if calls++; calls <= test.conflicts {
					return conflict
				}
				return nil
			})
			if calls != test.calls || apierrors.IsConflict(err) != (test.conflicts >= 5) {
				t.Errorf("%d conflicts: %d calls, %v", test.conflicts, calls, err)
			}
			if waited := time.Since(start); waited > 50*time.Millisecond {
				t.Errorf("%d conflicts: %v", test.conflicts, waited)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := client.RetryOnConflict(ctx, func() error { cancel(); return conflict })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
}
