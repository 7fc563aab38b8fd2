package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The messages of Kubernetes for revisions that have been compacted.
const (
	expiredList          = "The resourceVersion for the provided list is too old."
	expiredContinue      = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
	continueWithRevision = "specifying resource version is not allowed when using continue"
)

// List returns the selected objects, or a page of them, in the order of their keys. All pages of a
// list show the same revision.
func (s *Store) List(ctx context.Context, r *Request, o ListOptions) (List, error) {
	sel, err := newSelection(r, o.Labels, o.Fields)
	if err != nil {
		return List{}, err
	}
	snap, from, err := s.snapshotFor(ctx, r, o)
	if err != nil {
		return List{}, err
	}
	if err := s.readable(r); err != nil {
		return List{}, err
	}
	limit := o.Limit
	if o.ResourceVersion == "0" {
		limit = 0 // any revision will do: Kubernetes answers from its cache, in one page
	}
	p := page{ctx: ctx, r: r, selection: sel, limit: limit, objects: []*object.Object{}}
	fromNamespace, fromName := from.from(sel.namespace, r.Definition.Namespaced)
	for obj, may := range snap.Sift(sel.sieve(), sel.namespace, fromNamespace, fromName) {
		if !p.add(obj, may) {
			break
		}
	}
	if p.convert(); p.err != nil {
		return List{}, listError(r, p.err)
	}
	list := List{Revision: snap.Revision, Objects: p.objects}
	if p.more {
		list.Continue = encodeToken(snap.Revision, p.last, sel.namespace)
		if sel.everything() {
			list.Remaining = &p.rest
		}
	}
	return list, nil
}

// callSize bounds, in bytes, the objects that a webhook converts in one call.
const callSize = 8 << 20

// A page collects the objects of a list. Where a webhook converts, objects wait until there are
// enough for a call, and selectors match the converted objects.
type page struct {
	ctx       context.Context
	r         *Request
	selection *selection
	limit     int64 // 0 for none

	objects []*object.Object
	last    *object.Object // among those shown
	more    bool           // there are objects behind the last
	rest    int64          // how many, if all are selected
	err     error

	waiting []*object.Object // for the webhook
	size    int              // of these
}

// add adds the next object if it is selected; may says that it can be. It returns false if the page
// needs no more objects.
func (p *page) add(o *object.Object, may bool) bool {
	if p.full() {
		p.convert() // selectors may leave room
	}
	switch {
	case p.err != nil:
		return false
	case p.full():
		p.more = true
		p.rest++
		return p.selection.everything()
	case !may:
	case p.r.Definition.Webhook == nil:
		p.take(o)
	case p.selection.mayMatch(o):
		p.waiting = append(p.waiting, o)
		if p.size += len(o.Raw); p.size > callSize {
			p.convert()
		}
	}
	return true
}

func (p *page) full() bool { return p.limit > 0 && int64(len(p.objects)+len(p.waiting)) >= p.limit }

func (p *page) take(o *object.Object) {
	if p.selection.matches(o) {
		p.objects = append(p.objects, o)
		p.last = o
	}
}

// convert converts the waiting objects by the webhook.
func (p *page) convert() {
	if len(p.waiting) == 0 || p.err != nil {
		return
	}
	var found []*object.Object
	found, p.err = inVersion(p.ctx, p.r.Definition, p.r.Version, p.waiting)
	p.waiting, p.size = nil, 0
	if p.err == nil {
		for _, o := range found {
			p.take(o)
		}
	}
}

// snapshotFor returns the objects to list, and the token at which the page starts.
func (s *Store) snapshotFor(ctx context.Context, r *Request, o ListOptions) (state.Snapshot, token, error) {
	gr := r.Definition.GroupResource()
	if o.Continue != "" {
		from, err := decodeToken(o.Continue)
		if err != nil {
			return state.Snapshot{}, token{}, err
		}
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return state.Snapshot{}, token{}, apierrors.NewBadRequest(continueWithRevision)
		}
		if from.Revision < 0 {
			if err := s.sync(ctx); err != nil {
				return state.Snapshot{}, token{}, err
			}
			return s.state.Snapshot(gr), from, nil
		}
		snap, err := s.snapshotAt(ctx, r, from.Revision)
		if errors.Is(err, journal.ErrCompacted) {
			expired := apierrors.NewResourceExpired(expiredContinue)
			expired.ErrStatus.ListMeta.Continue = token{APIVersion: tokenVersion, Revision: -1, Start: from.Start}.String()
			err = expired
		}
		return snap, from, err
	}
	at, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return state.Snapshot{}, token{}, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	exact := o.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		o.ResourceVersionMatch == "" && o.Limit > 0 && at > 0
	if !exact {
		if err := s.reach(ctx, r, o.ResourceVersion, at); err != nil {
			return state.Snapshot{}, token{}, err
		}
		return s.state.Snapshot(gr), token{}, nil
	}
	snap, err := s.snapshotAt(ctx, r, at)
	if errors.Is(err, journal.ErrCompacted) {
		err = apierrors.NewResourceExpired(expiredList)
	}
	return snap, token{}, err
}

func (s *Store) snapshotAt(ctx context.Context, r *Request, at object.Revision) (state.Snapshot, error) {
	if err := s.waitFor(ctx, at); err != nil {
		return state.Snapshot{}, err
	}
	snap, err := s.state.SnapshotAt(ctx, r.Definition.GroupResource(), at)
	switch {
	case err == nil, errors.Is(err, journal.ErrCompacted), ctx.Err() != nil:
	case errors.Is(err, journal.ErrUnavailable):
		err = unavailable(err)
	default:
		err = apierrors.NewInternalError(fmt.Errorf("read history: %w", err))
	}
	return snap, err
}
