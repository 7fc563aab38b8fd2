package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/history"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// pageSize is the number of revisions that one request asks for.
const pageSize = 500

// Ask returns the revisions of an object, which need not exist any more, the oldest first, by
// history.kapok.dev. served is false if the server does not have it, or the user may not read it.
func Ask(ctx context.Context, c dynamic.Interface, of schema.GroupVersionResource, namespace, name string) (all []Revision, served bool, err error) {
	resource := dynamic.ResourceInterface(c.Resource(history.GroupVersion.WithResource(history.ClusterRevisions)))
	if namespace != "" {
		resource = c.Resource(history.GroupVersion.WithResource(history.Revisions)).Namespace(namespace)
	}
	options := metav1.ListOptions{
		FieldSelector: fmt.Sprintf("regarding.resource=%s,regarding.name=%s,regarding.apiVersion=%s", of.GroupResource(), name, of.GroupVersion()), Limit: pageSize,
	}
	for {
		list, err := resource.List(ctx, options)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil, false, nil
		}
		if err != nil {
			return nil, true, err
		}
		for i := range list.Items {
			r, err := read(&list.Items[i])
			if err != nil {
				return nil, true, err
			}
			all = append(all, r)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	slices.Reverse(all)
	for i := range all[min(1, len(all)):] {
		if r := &all[i+1]; r.Event == watch.Deleted {
			r.Object = all[i].Object // as in an event of a watch
		}
	}
	return all, true, nil
}

var events = map[history.Change]watch.EventType{
	history.Created: watch.Added, history.Updated: watch.Modified, history.Deleted: watch.Deleted, history.Earliest: "",
}

func read(o *unstructured.Unstructured) (Revision, error) {
	var from history.Revision
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &from); err != nil {
		return Revision{}, err
	}
	event, known := events[from.Change]
	if !known {
		return Revision{}, fmt.Errorf("the change %q of revision %s is not known", from.Change, from.Name)
	}
	r := Revision{
		Version: from.Regarding.ResourceVersion, Event: event, Managers: from.Managers, Time: from.CreationTimestamp.Time,
		Paths: from.Fields, Unreadable: from.Message,
	}
	if from.Object != nil {
		r.Object = &unstructured.Unstructured{Object: from.Object}
	}
	return r, nil
}
