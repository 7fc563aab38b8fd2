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

// parseRevision parses a resourceVersion parameter; "" is 0. Kubernetes answers its error with 500
// to a get and, as a bad request, to a list.
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

// freshWait limits the time that a read waits for a revision that has not been reached, as in the
// watch cache of kube-apiserver.
const freshWait = 3 * time.Second

// reach waits until the state is new enough for a read at a resourceVersion, which is at when
// parsed. A read without a resourceVersion shows all committed writes, one at "0" the current
// state. reach returns an error if what the request reads is damaged.
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

// waitFor waits until the state has reached a revision. After freshWait it returns the error of
// Kubernetes for a revision from the future.
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
