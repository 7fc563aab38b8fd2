package owned

import (
	"context"
	"maps"
	"reflect"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Events maps what happens to objects that owners of a kind may claim to requests for these owners:
// for the controller of the object, before and after the change; and where it has none, for all
// that may adopt it.
type Events struct {
	Kind schema.GroupKind // of the owners
	// Adopters returns the owners whose selector matches an object without a controller. It is
	// called when such an object appears, or its labels or controller change.
	Adopters func(ctx context.Context, orphan client.Object) []handler.Request
}

// Handler returns the handler of these events.
func (e Events) Handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, event handler.CreateEvent, q handler.Queue) {
			e.add(ctx, event.Object, q, event.Object.GetDeletionTimestamp() == nil)
		},
		UpdateFunc: func(ctx context.Context, event handler.UpdateEvent, q handler.Queue) {
			before, after := metav1.GetControllerOfNoCopy(event.ObjectOld), metav1.GetControllerOfNoCopy(event.ObjectNew)
			moved := !reflect.DeepEqual(before, after)
			if moved {
				e.addController(event.ObjectOld, q)
			}
			relabeled := !maps.Equal(event.ObjectOld.GetLabels(), event.ObjectNew.GetLabels())
			e.add(ctx, event.ObjectNew, q, moved || relabeled)
		},
		DeleteFunc: func(_ context.Context, event handler.DeleteEvent, q handler.Queue) {
			e.addController(event.Object, q)
		},
	}
}

// add adds requests for the controller of an object, or with adopt for all that may adopt it if it
// has none.
func (e Events) add(ctx context.Context, o client.Object, q handler.Queue, adopt bool) {
	if metav1.GetControllerOfNoCopy(o) != nil {
		e.addController(o, q)
		return
	}
	if adopt {
		for _, r := range e.Adopters(ctx, o) {
			q.Add(r)
		}
	}
}

func (e Events) addController(o client.Object, q handler.Queue) {
	by := metav1.GetControllerOfNoCopy(o)
	if by == nil || by.Kind != e.Kind.Kind {
		return
	}
	if gv, err := schema.ParseGroupVersion(by.APIVersion); err != nil || gv.Group != e.Kind.Group {
		return
	}
	q.Add(handler.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: by.Name}})
}
