package resource

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseRevision reads a resourceVersion parameter; "" is 0. Its error is what
// Kubernetes answers with 500 to a get and, as a bad request, to a list.
func parseRevision(s string) (object.Revision, error) {
	if s == "" || s == "0" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		_, err = strconv.ParseUint(s, 10, 64) // the words that clients know
		if err == nil {
			err = strconv.ErrRange
		}
		invalid := field.Invalid(field.NewPath("resourceVersion"), s, err.Error())
		return 0, field.ErrorList{invalid}.ToAggregate()
	}
	return object.Revision(n), nil
}

// freshWait is how long a read waits for a revision that has not been reached:
// what kube-apiserver's watch cache waits.
const freshWait = 3 * time.Second

// reach returns when the state is new enough for a read at a resourceVersion, which
// is at if parsed. Without one a read shows everything that has been committed; with
// "0" whatever is there. What is asked for must be known then.
func (s *Store) reach(ctx context.Context, r *Request, resourceVersion string, at object.Revision) error {
	var err error
	if resourceVersion == "" {
		err = s.sync(ctx)
	} else {
		err = s.waitFor(ctx, at)
	}
	if err != nil {
		return err
	}
	return s.readable(r)
}

// waitFor returns when the state has reached a revision, or with the error that
// clients know for one from the future.
func (s *Store) waitFor(ctx context.Context, at object.Revision) error {
	if at <= s.state.Revision() {
		return nil
	}
	deadline := time.NewTimer(freshWait)
	defer deadline.Stop()
	for {
		head, changed := s.state.Changed()
		if at <= head {
			return nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			return tooLargeResourceVersion(at, head)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func tooLargeResourceVersion(at, head object.Revision) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", at, head), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}
