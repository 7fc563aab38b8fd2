// Package causes builds the Status of an invalid request, which can be invalid for many reasons.
//
// Kubernetes lists every reason, twice, with the values that were sent. A body of a few kilobytes
// can be wrong in thousands of places, and one reason can contain a whole list, so that the
// response, and the work of writing it, would grow with the square of the body. Here both are
// bounded: [Invalid] renders at most [Most] causes and about [MostText] bytes of them, in one pass,
// and the message has the total number. Below these bounds the Status is that of
// k8s.io/apimachinery/pkg/api/errors.NewInvalid.
//
// The package starts no goroutine and has no locks.
package causes

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// Most is the number of causes that a Status lists.
	Most = 1000
	// MostText is the number of bytes after which no further cause is rendered.
	MostText = 256 << 10
	// mostOne is the maximum number of bytes of one cause; the rest is left out.
	mostOne = 64 << 10
)

// Invalid returns the error for an invalid object: code 422, reason Invalid.
func Invalid(kind schema.GroupKind, name string, errs field.ErrorList) *apierrors.StatusError {
	shown := make([]metav1.StatusCause, 0, min(len(errs), Most))
	var texts joined
	for i, err := range errs {
		if i == Most || texts.size >= MostText {
			break
		}
		body := cut(err.ErrorBody())
		shown = append(shown, metav1.StatusCause{Type: metav1.CauseType(err.Type), Message: body, Field: cut(err.Field)})
		texts.add(cut(err.Field) + ": " + body)
	}
	message := fmt.Sprintf("%s %q is invalid", kind.String(), name)
	if len(errs) > 0 {
		message += ": " + texts.text(len(shown), len(errs))
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnprocessableEntity,
		Reason:  metav1.StatusReasonInvalid,
		Message: message,
		Details: &metav1.StatusDetails{Group: kind.Group, Kind: kind.Kind, Name: name, Causes: shown},
	}}
}

// Once leaves out errors whose text has occurred before, as Kubernetes does for its own kinds. It
// compares only as many as [Invalid] renders at most, and keeps the others.
func Once(errs field.ErrorList) field.ErrorList {
	if len(errs) < 2 {
		return errs
	}
	seen := map[string]bool{}
	size := 0
	kept := errs[:0]
	for i, err := range errs {
		if len(kept) == Most || size >= MostText {
			return append(kept, errs[i:]...)
		}
		text := err.Error()
		size += len(text)
		if !seen[text] {
			seen[text] = true
			kept = append(kept, err)
		}
	}
	return kept
}

// Errors returns an error with the texts of errs (see [Join]), or nil if there are none.
func Errors(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return list(errs)
}

// list is an error made of several.
type list []error

// Error implements error.
func (l list) Error() string { return Join(l) }

// Unwrap returns the errors, for errors.Is and errors.As.
func (l list) Unwrap() []error { return l }

// Join joins the texts of errors within the bounds of this package, in the form of the Aggregate of
// k8s.io/apimachinery/pkg/util/errors.
func Join(errs []error) string {
	var texts joined
	shown := 0
	for _, err := range errs {
		if shown == Most || texts.size >= MostText {
			break
		}
		texts.add(cut(err.Error()))
		shown++
	}
	return texts.text(shown, len(errs))
}

// joined is a list of distinct texts.
type joined struct {
	seen map[string]bool
	list []string
	size int // bytes, including duplicates
}

func (j *joined) add(text string) {
	j.size += len(text)
	if j.seen[text] {
		return
	}
	if j.seen == nil {
		j.seen = map[string]bool{}
	}
	j.seen[text] = true
	j.list = append(j.list, text)
}

// text formats the list as Kubernetes does, and adds the total if not all were added.
func (j *joined) text(shown, total int) string {
	if shown < total {
		j.list = append(j.list, fmt.Sprintf("and %d more (%d causes in all)", total-shown, total))
	}
	if len(j.list) == 1 {
		return j.list[0]
	}
	return "[" + strings.Join(j.list, ", ") + "]"
}

// cut shortens a text that is too long for one cause.
func cut(text string) string {
	if len(text) <= mostOne {
		return text
	}
	end := mostOne
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes more)", text[:end], len(text)-end)
}
