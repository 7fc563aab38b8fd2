package quota

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A write is the effect of a request on one object that can count.
type write struct {
	request     *resource.Request
	gr          schema.GroupResource
	name        string
	obj         resource.Tree
	now, before thing // nil if the object does not exist
	judged      bool  // a quota may reject it
}

func newWrite(r *resource.Request, obj, old resource.Tree) (*write, error) {
	w := &write{request: r, gr: r.Definition.GroupResource(), name: nameOf(obj, old), obj: obj}
	var err error
	if obj != nil {
		if w.now, err = measure(w.gr, obj); err != nil {
			return nil, err
		}
	}
	if old != nil {
		if w.before, err = measure(w.gr, old); err != nil {
			return nil, err
		}
	}
	w.judged = w.mayRefuse()
	return w, nil
}

// mayRefuse reports whether a quota may reject the write: one of a user that creates an object or
// increases its use.
func (w *write) mayRefuse() bool {
	switch {
	case w.request.User == nil || w.now == nil:
		return false
	case w.before == nil:
		return w.request.Subresource == ""
	}
	if p, ok := w.now.(*pod); ok {
		return w.request.Subresource == "resize" || w.request.Subresource == "" && p.terminating() != w.before.(*pod).terminating()
	}
	return w.request.Subresource == ""
}

// fits returns an error if a write needs more than a quota leaves.
func (w *write) fits(a *account, more corev1.ResourceList) error {
	var exceeded []corev1.ResourceName
	used := sum(a.used, more)
	for name := range more {
		if total, hard := used[name], a.spec.Hard[name]; total.Cmp(hard) > 0 {
			exceeded = append(exceeded, name)
		}
	}
	if len(exceeded) == 0 {
		return nil
	}
	return w.refuse("exceeded quota: %s, requested: %s, used: %s, limited: %s", a.name,
		printed(more, exceeded), printed(a.used, exceeded), printed(a.spec.Hard, exceeded))
}

func (w *write) refuse(format string, args ...any) error {
	return admission.Forbidden(&resource.Admitted{Request: w.request, Name: w.request.Name, Object: w.obj}, fmt.Errorf(format, args...))
}
