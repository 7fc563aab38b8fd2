package crd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/crd/conversion"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Controller keeps the registry and the status of CustomResourceDefinitions in step with the
// stored definitions. [Start] starts it, [Controller.Close] ends it; it is safe for concurrent use.
type Controller struct {
	store    *resource.Store
	kind     *resource.Definition // of CustomResourceDefinitions
	log      *slog.Logger
	programs *programs
	peers    Peers
	webhooks *conversion.Webhooks // closed by Close

	stop    func()
	reached reached
	done    sync.WaitGroup

	// The fields below belong to the goroutine that reconciles.
	known map[string]*entry // by name
	// groups has the entries of known by group, and by name there: names compete within a group
	// only.
	groups map[string]map[string]*entry
	led    bool // whether this server led when it last looked
	// finished receives the names of definitions whose objects have been deleted, or that no longer
	// wait for it.
	finished chan string
}

// Start registers all custom resources that are established, and follows their definitions until
// Close. The registry of the store must have the definition of CustomResourceDefinitions. Peers are
// the other servers on the journal; nil means that there are none. hooks says how conversion
// webhooks are reached; by default, services are looked up in the store. Cancelling ctx has no
// effect after Start returns.
func Start(ctx context.Context, store *resource.Store, peers Peers, hooks webhook.Options, log *slog.Logger) (*Controller, error) {
	if peers == nil {
		peers = alone{}
	}
	kind := store.Registry().Load().Resource(Resource)
	if kind == nil {
		return nil, fmt.Errorf("%s is not served", Resource)
	}
	snapshot := store.State().Snapshot(Resource)
	cursor, err := store.State().Watch(Resource, snapshot.Revision)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", Resource, err)
	}
	if hooks.Services == nil {
		hooks.Services = webhook.InState(store.State())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &Controller{
		store: store, kind: kind, log: log, stop: cancel, programs: newPrograms(),
		known: map[string]*entry{}, groups: map[string]map[string]*entry{}, finished: make(chan string), peers: peers,
		webhooks: conversion.NewWebhooks(hooks),
	}
	c.reached.poke = make(chan struct{}, 1)
	var (
		pending []string
		served  []*resource.Definition
	)
	for o := range snapshot.All("") {
		m, err := readManifest(o)
		if err != nil { // one unreadable definition does not keep the others from being served
			log.Error("cannot serve custom resource", "error", err)
			continue
		}
		pending = append(pending, o.Key.Name)
		if d := c.define(c.entry(o.Key.Name), m); d != nil {
			served = append(served, d)
		}
	}
	store.Registry().Put(served...) // in one call: each call rebuilds the registry
	c.done.Go(func() { c.run(ctx, cursor, pending) })
	return c, nil
}

// Metrics returns the metrics of conversion webhooks.
func (c *Controller) Metrics() prometheus.Collector { return c.webhooks.Metrics }

// Close ends the controller's goroutines and calls of webhooks, and waits for them.
func (c *Controller) Close() {
	c.stop()
	c.done.Wait()
	c.webhooks.Close()
}

// A failed reconciliation is retried after firstRetry; the pause doubles up to lastRetry.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func (c *Controller) run(ctx context.Context, cursor *state.Cursor, pending []string) {
	pause := firstRetry
	changed := c.peers.Changed()
	c.led = c.peers.Leads()
	// These are revisions of definitions. The store's own revision also grows when peers write
	// their Leases, and reporting it to them would never end.
	seen, served, lost := cursor.Revision(), object.Revision(0), false
	for ctx.Err() == nil {
		pending = c.reconcileAll(ctx, pending) // the failed ones remain
		events, wait, err := cursor.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				// The cursor fell behind the bounded history: reconcile all definitions.
				if !lost {
					c.log.Warn("lost the history of CustomResourceDefinitions", "error", err)
				}
				lost = true
				rest(ctx, firstRetry)
				cursor, pending = c.reload(ctx)
				if cursor != nil {
					seen = cursor.Revision()
				}
			}
			continue
		}
		lost = false
		if wait == nil {
			for _, e := range events {
				pending = append(pending, e.Last().Key.Name)
				seen = e.Revision
			}
			continue
		}
		c.reached.set(cursor.Revision())
		if seen > served {
			c.peers.Serves(seen)
			served = seen
		}
		timer := time.NewTimer(pause)
		again := timer.C
		if len(pending) == 0 {
			again, pause = nil, firstRetry
		}
		select {
		case <-wait:
		case <-changed:
			changed = c.peers.Changed()
			pending = append(pending, c.undecided()...)
		case <-c.reached.poke:
		case <-again:
			pause = min(2*pause, lastRetry)
		case name := <-c.finished:
			if e := c.known[name]; e != nil {
				e.finishes = false
			}
			pending = append(pending, name)
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// reload returns a new cursor, and the names of all definitions, known or stored.
func (c *Controller) reload(ctx context.Context) (*state.Cursor, []string) {
	for {
		// The cursor is opened before the snapshot, so that a change between them is seen twice
		// rather than never.
		cursor, err := c.store.State().Watch(Resource, c.store.State().Revision())
		if err != nil && ctx.Err() == nil {
			continue
		}
		var names []string
		for name := range c.known {
			names = append(names, name)
		}
		for o := range c.store.State().Snapshot(Resource).All("") {
			names = append(names, o.Key.Name)
		}
		return cursor, names
	}
}

// reconcileAll reconciles definitions in the given order, which decides conflicts of names, and
// then those that wait for a name that became free. It returns the names of those to retry.
func (c *Controller) reconcileAll(ctx context.Context, pending []string) (failed []string) {
	var queue []string
	queued := map[string]bool{}
	add := func(names []string) {
		for _, name := range names {
			if !queued[name] {
				queued[name] = true
				queue = append(queue, name)
			}
		}
	}
	for add(pending); len(queue) > 0 && ctx.Err() == nil; {
		name := queue[0]
		queue = queue[1:]
		delete(queued, name)
		freed, err := c.reconcile(ctx, name)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("cannot bring CustomResourceDefinition up to date", "name", name, "error", err)
			failed = append(failed, name)
		}
		if freed {
			add(c.waiting(name))
		}
	}
	return failed
}

// waiting returns the other definitions in the group of name that have not been granted all names
// in their spec.
func (c *Controller) waiting(name string) []string {
	var names []string
	for other, e := range c.groups[groupOf(name)] {
		if m := e.manifest; other != name && !sameNames(&m.Spec.Names, &m.Status.AcceptedNames) {
			names = append(names, other)
		}
	}
	slices.Sort(names)
	return names
}

// groupOf returns the group of a definition, which is named PLURAL.GROUP.
func groupOf(name string) string {
	_, group, _ := strings.Cut(name, ".")
	return group
}

// entry returns the entry of a definition, and creates an empty one if there is none.
func (c *Controller) entry(name string) *entry {
	e := c.known[name]
	if e == nil {
		e = &entry{}
		c.known[name] = e
		group := groupOf(name)
		if c.groups[group] == nil {
			c.groups[group] = map[string]*entry{}
		}
		c.groups[group][name] = e
	}
	return e
}

// reconcile reconciles one definition. It reports whether names may have become free.
func (c *Controller) reconcile(ctx context.Context, name string) (freed bool, err error) {
	o, _ := c.store.State().Get(c.kind.Key("", name))
	if o == nil {
		c.drop(name)
		return true, nil
	}
	e := c.known[name]
	if e != nil && e.manifest.object == o && e.served != nil && !e.manifest.installing() && sameNames(&e.manifest.Spec.Names, &e.manifest.Status.AcceptedNames) {
		c.finish(ctx, name) // nothing else is left to do
		return false, nil
	}
	m, err := readManifest(o)
	if err != nil {
		return false, err
	}
	e = c.entry(name)
	if e.manifest != nil && e.manifest.Metadata.UID != m.Metadata.UID {
		freed = true
	}
	e.manifest = m
	if !c.peers.Leads() {
		c.led = false // so that all definitions are reconciled when this server takes the lead
		c.serve(e, m)
		return false, nil
	}
	granted := m.Status.AcceptedNames
	if review(m, c.taken(m.Spec.Group), c.everywhere(m), time.Now()) {
		// A definition must be served before clients see it as established.
		c.serve(e, m)
		stored, err := c.writeStatus(ctx, m)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			// Another writer changed or deleted the definition; its event follows. Until then it is
			// served on: clients may have used it, and watches would end for nothing.
			e.manifest, err = readManifest(o)
			return true, err
		case err != nil:
			return freed, err
		}
		m.object = stored
		freed = freed || !sameNames(&granted, &m.Status.AcceptedNames)
	}
	c.serve(e, m)
	c.finish(ctx, name)
	return freed, nil
}

// drop removes a deleted definition.
func (c *Controller) drop(name string) {
	if e := c.known[name]; e != nil {
		c.unserve(e)
		delete(c.known, name)
		group := groupOf(name)
		if delete(c.groups[group], name); len(c.groups[group]) == 0 {
			delete(c.groups, group)
		}
	}
}

// taken returns the names in use in a group, by definitions and by built-in kinds.
func (c *Controller) taken(group string) nameSet {
	taken := newNameSet()
	for _, e := range c.groups[group] {
		taken.add(&e.manifest.Status.AcceptedNames)
	}
	for _, d := range c.store.Registry().Load().All() {
		if !d.Custom && d.In(group) {
			taken.add(&apiextensionsv1.CustomResourceDefinitionNames{
				Plural: d.Plural, Singular: d.Singular, ShortNames: d.ShortNames, Kind: d.Kind, ListKind: d.ListKind,
			})
		}
	}
	return taken
}
