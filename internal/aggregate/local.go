package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// managedLabel marks the APIServices that the server manages: at its start only (onStart), or at
// all times (always). The server does not change an APIService without the label.
const (
	managedLabel = "kube-aggregator.kubernetes.io/automanaged"
	onStart      = "onstart"
	always       = "true"
	// inProcess marks the APIService of a handler in this process. The server manages it at all times,
	// but not while it names a service: then another server serves the group version.
	inProcess = "kapok"
)

// Locals keeps an APIService for each group version that this server serves itself.
type Locals struct {
	store  *resource.Store
	state  *state.State
	inside []schema.GroupVersion
	log    *slog.Logger

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// StartLocals creates the APIServices of the group versions that this server serves, and keeps
// those of custom resources and of the group versions inside, which handlers in this process serve,
// until Close.
func StartLocals(ctx context.Context, store *resource.Store, inside []schema.GroupVersion, log *slog.Logger) (*Locals, error) {
	l := &Locals{store: store, state: store.State(), inside: inside, log: log}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	set := store.Registry().Load()
	if err := l.sync(set, true); err != nil {
		l.stop()
		return nil, err
	}
	cursor, err := l.state.Watch(Resource, l.state.Revision())
	if err != nil {
		l.stop()
		return nil, fmt.Errorf("follow %s: %w", Resource, err)
	}
	l.done.Go(func() { l.run(set, cursor) })
	return l, nil
}

// Close ends the goroutine of StartLocals and waits for it. The APIServices stay.
func (l *Locals) Close() {
	l.stop()
	l.done.Wait()
}

func (l *Locals) run(set *resource.Set, cursor *state.Cursor) {
	pause := firstRefresh
	for l.ctx.Err() == nil {
		events, wait, err := cursor.Next(l.ctx)
		if err != nil {
			if cursor, err = l.state.Watch(Resource, l.state.Revision()); err != nil {
				return // the state is closed
			}
		}
		if now := l.store.Registry().Load(); err == nil && len(events) == 0 && now == set && wait != nil {
			select {
			case <-wait:
			case <-set.Changed():
			case <-l.ctx.Done():
			}
			continue
		}
		set = l.store.Registry().Load()
		if err := l.sync(set, false); err == nil {
			pause = firstRefresh
		} else if l.ctx.Err() == nil {
			l.log.Warn("cannot update the APIServices of local group versions", "error", err)
			rest(l.ctx, pause)
			pause = min(2*pause, refreshInterval)
			set = nil // so that the next round retries
		}
	}
}

// A local is the wanted state of an APIService.
type local struct {
	schema.GroupVersion
	managed string // value of managedLabel
	group   int    // priorities
	version int
}

// wanted returns the APIServices for the resources of a set and the handlers in this process, by
// name. There is none for APIServices themselves.
func wanted(set *resource.Set, inside []schema.GroupVersion) map[string]local {
	all := map[string]local{}
	for _, d := range set.All() {
		for _, v := range d.Versions {
			gv := d.GroupVersion(v)
			if gv.Group == Resource.Group {
				continue
			}
			one := local{GroupVersion: gv, managed: onStart}
			if d.Custom {
				one.managed = always
			}
			name := gv.Version + "." + gv.Group
			if _, known := all[name]; known && d.Custom {
				continue // the group has built-in kinds too, which decide
			}
			one.group, one.version = PriorityOf(gv, d.Custom)
			all[name] = one
		}
	}
	for _, gv := range inside {
		name := gv.Version + "." + gv.Group
		if _, known := all[name]; !known {
			all[name] = local{GroupVersion: gv, managed: inProcess, group: insidePriority, version: insidePriority}
		}
	}
	return all
}

// sync creates, updates and deletes APIServices. Those that are managed at the start only are left
// alone unless starting is set.
func (l *Locals) sync(set *resource.Set, starting bool) error {
	d := set.Resource(Resource)
	if d == nil {
		return fmt.Errorf("%s is not served", Resource)
	}
	for {
		batch, surplus, returned, err := l.plan(d, wanted(set, l.inside), starting)
		if err != nil {
			return err
		}
		for _, o := range returned {
			if err := writeCondition(l.ctx, l.store, o.Key.Name, o.Meta.UID, localCondition()); err != nil {
				return err
			}
		}
		for _, o := range surplus {
			if err := l.remove(d, o); err != nil {
				return err
			}
		}
		if len(batch.Entries) == 0 {
			return nil
		}
		err = l.append(batch)
		var conflict *journal.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
	}
}

// append commits a batch as a whole, or entry by entry if the journal does not support batches of
// several.
func (l *Locals) append(batch journal.Batch) error {
	_, err := l.state.Append(l.ctx, batch)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	for _, entry := range batch.Entries {
		if _, err := l.state.Append(l.ctx, journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
			return err
		}
	}
	return nil
}

// plan returns the writes that are needed, the APIServices to delete, and those that no longer name
// a service but still have the condition of one.
func (l *Locals) plan(d *resource.Definition, all map[string]local, starting bool) (batch journal.Batch, surplus, returned []*object.Object, err error) {
	now := time.Now()
	for o := range l.state.Snapshot(Resource).All("") {
		one, known := all[o.Key.Name]
		delete(all, o.Key.Name) // it exists
		named := bytes.Contains(o.Raw, []byte(serviceMark))
		if !named && !bytes.Contains(o.Raw, []byte(`"reason":"Local"`)) {
			returned = append(returned, o)
			continue // the write of its condition is followed by another round
		}
		managed := o.Meta.Labels.Get(managedLabel)
		switch {
		case managed != always && !(managed == onStart && starting) && !(managed == inProcess && !named):
		case known:
			tree, err := o.Tree()
			if err != nil {
				return batch, nil, nil, err
			}
			if one.applyTo(tree) {
				entry := journal.Entry{Key: o.Key, Prev: o.Revision}
				if entry.Object, err = object.New(o.Key, tree, o.Schema, now); err != nil {
					return batch, nil, nil, err
				}
				batch.Entries = append(batch.Entries, entry)
			}
		case !o.Meta.Deleting():
			surplus = append(surplus, o)
		}
	}
	for name, one := range all {
		if one.managed == onStart && !starting {
			continue
		}
		entry := journal.Entry{Key: d.Key("", name)}
		if entry.Object, err = object.New(entry.Key, one.tree(d, name, now), 0, now); err != nil {
			return batch, nil, nil, err
		}
		batch.Entries = append(batch.Entries, entry)
	}
	return batch, surplus, returned, nil
}

func (l *Locals) remove(d *resource.Definition, o *object.Object) error {
	r := &resource.Request{Definition: d, Version: d.Storage, Name: o.Key.Name, Manager: manager, Warn: func(string) {}}
	_, err := l.store.Delete(l.ctx, r, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.Meta.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the change follows as an event
	}
	return err
}

func (l *local) spec() resource.Tree {
	spec := resource.Tree{"version": l.Version, "groupPriorityMinimum": int64(l.group), "versionPriority": int64(l.version)}
	if l.Group != "" {
		spec["group"] = l.Group
	}
	return spec
}

// tree returns a new APIService.
func (l *local) tree(d *resource.Definition, name string, now time.Time) resource.Tree {
	at, c := now.UTC().Format(time.RFC3339), localCondition()
	return resource.Tree{
		"apiVersion": d.APIVersion(d.Storage), "kind": d.Kind,
		"metadata": resource.Tree{
			"name": name, "uid": string(uuid.NewUUID()), "creationTimestamp": at,
			"labels": resource.Tree{managedLabel: l.managed},
		},
		"spec": l.spec(),
		"status": resource.Tree{"conditions": []any{resource.Tree{
			"type": string(c.Type), "status": string(c.Status), "lastTransitionTime": at, "reason": c.Reason, "message": c.Message,
		}}},
	}
}

// applyTo sets the wanted spec of an existing APIService, and reports whether that changed it.
func (l *local) applyTo(tree resource.Tree) bool {
	spec := l.spec()
	if object.Equal(tree["spec"], spec) {
		return false
	}
	tree["spec"] = spec
	return true
}
