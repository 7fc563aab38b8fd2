package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Ensure creates missing roles and bindings, and adds missing parts to the others. With gather,
// aggregated roles are created with their rules; otherwise an [Aggregator] adds them. An object
// that cannot be completed is logged, and is no error. Other servers may call it at the same time.
func Ensure(ctx context.Context, store *resource.Store, gather bool, log *slog.Logger) error {
	all := standards()
	if gather {
		all = completed()
	}
	st := store.State()
	old, _ := st.Get(discovery)
	var missing, changed []*standard
	for _, s := range all {
		o, _ := st.Get(s.key)
		switch {
		case o == nil && old != nil && s.key == publicInfo:
			changed = append(changed, s)
		case o == nil:
			missing = append(missing, s)
		case !s.made(o):
			changed = append(changed, s)
		}
	}
	if err := create(ctx, store, missing); err != nil {
		return err
	}
	for _, s := range changed {
		if err := reconcile(ctx, store, s); ctx.Err() != nil {
			return ctx.Err() // the server stops
		} else if err != nil {
			log.Warn("cannot complete a default role or binding", "object", s.key.String(), "err", err)
		}
	}
	return ctx.Err()
}

// create creates missing objects: in one batch, or, if the journal does not support that or other
// servers write too, one by one with some concurrency.
func create(ctx context.Context, store *resource.Store, missing []*standard) error {
	if len(missing) == 0 {
		return nil
	}
	now := time.Now()
	var batch journal.Batch
	for _, s := range missing {
		o, err := s.object(store.Registry().Load().Resource(s.key.Resource), now)
		if err != nil {
			return fmt.Errorf("create %s: %w", s.key, err)
		}
		batch.Entries = append(batch.Entries, journal.Entry{Key: s.key, Object: o})
	}
	_, err := store.State().Append(ctx, batch)
	var conflict *journal.ConflictError
	switch {
	case errors.As(err, &conflict): // another server creates them too
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, journal.ErrTooLarge):
	case err != nil:
		return fmt.Errorf("create roles and bindings: %w", err)
	default:
		return nil
	}
	errs := make([]error, len(missing))
	one := func(i int) {
		_, err := store.State().Append(ctx, journal.Batch{Entries: batch.Entries[i : i+1]})
		if errors.As(err, new(*journal.ConflictError)) {
			err = nil // it exists
		}
		errs[i] = err
	}
	// publicInfo must exist before the other bindings: a server that finds the binding of
	// system:discovery without publicInfo would copy it.
	early := slices.IndexFunc(missing, func(s *standard) bool { return s.key == publicInfo })
	if early >= 0 {
		one(early)
	}
	const atATime = 8
	var creating sync.WaitGroup
	for first := range atATime {
		creating.Go(func() {
			for i := first; i < len(missing); i += atATime {
				if i != early {
					one(i)
				}
			}
		})
	}
	creating.Wait()
	return errors.Join(errs...)
}

// publicInfo was a part of system:discovery in earlier versions of Kubernetes.
var (
	publicInfo = object.Key{Resource: clusterRoleBindings, Name: "system:public-info-viewer"}
	discovery  = object.Key{Resource: clusterRoleBindings, Name: "system:discovery"}
)

// reconcile adds the missing parts of an object, or creates it from another one.
func reconcile(ctx context.Context, store *resource.Store, s *standard) error {
	d := store.Registry().Load().Resource(s.key.Resource)
	r := &resource.Request{
		Definition: d, Version: d.Storage, Namespace: s.key.Namespace, Name: s.key.Name, Manager: manager,
		FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
	o, _ := store.State().Get(s.key)
	var err error
	switch {
	case o == nil:
		err = createLike(ctx, store, r, s)
	case s.tree()["roleRef"] == nil:
		_, err = store.Edit(ctx, r, func(live resource.Tree) error { return s.completeRole(live) })
	default:
		err = s.bind(ctx, store, r, o)
	}
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		err = nil // another server has changed it meanwhile
	}
	if err != nil && !errors.Is(err, errProtected) {
		return err
	}
	return nil
}

// createLike creates the binding of system:public-info-viewer with the subjects of
// system:discovery, if that exists: where unauthenticated users were removed from one, they must
// not appear in the other.
func createLike(ctx context.Context, store *resource.Store, r *resource.Request, s *standard) error {
	o, _ := store.State().Get(discovery)
	if o == nil {
		return create(ctx, store, []*standard{s})
	}
	old, err := o.Tree()
	if err != nil {
		return err
	}
	tree := runtime.DeepCopyJSON(s.tree())
	if delete(tree, "subjects"); old["subjects"] != nil {
		tree["subjects"] = old["subjects"]
	}
	metadata, was := tree["metadata"].(resource.Tree), old["metadata"].(resource.Tree)
	for _, key := range []string{"labels", "annotations"} {
		if delete(metadata, key); was[key] != nil {
			metadata[key] = was[key]
		}
	}
	data, err := object.AppendJSON(nil, tree)
	if err != nil {
		return err
	}
	_, err = store.Create(ctx, r, resource.Body{Data: data})
	return err
}

var errProtected = errors.New("the object has the annotation autoupdate=false")

// completeRole adds the missing rules to a role. It does not change a role that the annotation
// protects.
func (s *standard) completeRole(live resource.Tree) error {
	if err := s.completeMetadata(live); err != nil {
		return err
	}
	has, want := decode(live), decode(s.tree())
	if s.aggregated {
		want.Rules = nil // other roles contribute them
	}
	if missing := rbac.Uncovered(has.Rules, want.Rules); len(missing) > 0 {
		live["rules"] = untyped(append(has.Rules, missing...))
	}
	if s.tree()["aggregationRule"] == nil {
		delete(live, "aggregationRule")
		return nil
	}
	rule, _ := live["aggregationRule"].(resource.Tree)
	selectors, _ := rule["clusterRoleSelectors"].([]any)
	for _, selector := range s.tree()["aggregationRule"].(resource.Tree)["clusterRoleSelectors"].([]any) {
		if !contains(selectors, selector) {
			selectors = append(selectors, selector)
		}
	}
	live["aggregationRule"] = resource.Tree{"clusterRoleSelectors": selectors}
	return nil
}

// bind adds missing subjects to a binding. A binding to another role is replaced, because roleRef
// is immutable.
func (s *standard) bind(ctx context.Context, store *resource.Store, r *resource.Request, o *object.Object) error {
	tree, err := o.Tree()
	if err != nil {
		return err
	}
	if !object.Equal(tree["roleRef"], s.tree()["roleRef"]) {
		if err := s.completeMetadata(tree); err != nil {
			return err
		}
		uid := types.UID(o.Meta.UID)
		if _, err := store.Delete(ctx, r, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
			return err
		}
		return create(ctx, store, []*standard{s})
	}
	_, err = store.Edit(ctx, r, func(live resource.Tree) error {
		if err := s.completeMetadata(live); err != nil {
			return err
		}
		subjects, _ := live["subjects"].([]any)
		wanted, _ := s.tree()["subjects"].([]any)
		for _, subject := range wanted {
			if !contains(subjects, subject) {
				subjects = append(subjects, subject)
			}
		}
		if subjects != nil {
			live["subjects"] = subjects
		}
		return nil
	})
	return err
}

// completeMetadata adds missing labels and annotations; existing ones stay.
func (s *standard) completeMetadata(live resource.Tree) error {
	metadata, _ := live["metadata"].(resource.Tree)
	annotations, _ := metadata["annotations"].(resource.Tree)
	if annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return errProtected
	}
	for _, key := range []string{"labels", "annotations"} {
		has, _ := metadata[key].(resource.Tree)
		if has == nil {
			has = resource.Tree{}
		}
		for name, value := range s.tree()["metadata"].(resource.Tree)[key].(resource.Tree) {
			if _, ok := has[name]; !ok {
				has[name] = value
			}
		}
		metadata[key] = has
	}
	return nil
}

func contains(list []any, item any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return object.Equal(other, item) })
}
