package fairness

import (
	"encoding/json"
	"slices"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/object"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources of the configuration.
var (
	flowSchemas    = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "flowschemas"}
	priorityLevels = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"}
)

// A configuration is what requests are classified by. It is immutable, but for what is in the levels.
type configuration struct {
	flows    []*flow // in the order in which they are tried
	catchAll *flow
	levels   []*level
	byName   map[string]*level
	change   uint64 // the last one that was read
}

// A flow is a schema and the level that it leads to.
type flow struct {
	schema *matcher
	level  *level
	tally  *tally // guarded by the lock of the level
	exempt bool
	queued bool
	most   int // seats of a request

	schemaUID, levelUID []string // as values of headers
}

// classify returns the flow of a request.
func (c *configuration) classify(a *auth.Attributes) *flow {
	for _, f := range c.flows {
		if f.schema.matches(a) {
			return f
		}
	}
	return c.catchAll // of somebody who is in no group at all
}

func (c *configuration) sort() {
	slices.SortFunc(c.flows, func(a, b *flow) int { return a.schema.compare(b.schema) })
}

// configuration returns the configuration of this moment.
func (l *Limiter) configuration() *configuration {
	if c := l.current.Load(); c != nil && c.change == l.changes.Load() {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	change := l.changes.Load() // before it is read: who changes it now will have it read again
	c := l.current.Load()
	if c == nil || c.change != change {
		now := l.now()
		c = l.configureLocked(now)
		c.change = change
		l.adjustLocked(now, c)
		l.current.Store(c)
	}
	return c
}

// A setting is an object of the configuration.
type setting[T any] struct {
	name, uid string
	spec      T
}

func (l *Limiter) configureLocked(now instant) *configuration {
	schemas, specs := l.read()
	old := l.current.Load()
	c := &configuration{byName: map[string]*level{}}
	var sum float64
	for _, s := range specs {
		own, _, _ := sharesOf(s.spec)
		sum += float64(own)
	}
	template := map[string]*flow{}
	for _, s := range specs {
		is, _ := settingsOf(s.name, s.spec) // those that cannot be have not been read
		share := shareOf(s.spec, l.seats(), sum)
		var level *level
		if old != nil {
			level = old.byName[s.name]
		}
		if level == nil {
			level = newLevel(l, s.name, now)
		}
		level.configure(now, is, share)
		c.levels = append(c.levels, level)
		c.byName[s.name] = level
		template[s.name] = &flow{
			level: level, levelUID: []string{s.uid},
			exempt: is.exempt, queued: is.queues > 0, most: widest(is, share.nominal),
		}
	}
	for _, s := range schemas {
		t := template[s.spec.level]
		if t == nil {
			continue // dangling
		}
		f := *t
		f.schema, f.schemaUID = s.spec, []string{s.uid}
		f.tally = f.level.tally(s.name)
		c.flows = append(c.flows, &f)
		if s.name == flowcontrolv1.FlowSchemaNameCatchAll {
			c.catchAll = &f
		}
	}
	c.sort()
	for _, level := range c.levels {
		level.forget(c.flows)
	}
	return c
}

// read returns what is stored, and what Kubernetes has from its start in place of what must not be missing.
func (l *Limiter) read() (schemas []setting[*matcher], levels []setting[*flowcontrolv1.PriorityLevelConfigurationSpec]) {
	if l.opts.Store != nil {
		snapshot := l.opts.Store.State().Snapshot
		for o := range snapshot(priorityLevels).All("") {
			if spec := levelSpec(o); spec != nil {
				levels = append(levels, setting[*flowcontrolv1.PriorityLevelConfigurationSpec]{o.Key.Name, string(o.Meta.UID), spec})
			}
		}
		for o := range snapshot(flowSchemas).All("") {
			if m := matcherOf(o); m != nil {
				schemas = append(schemas, setting[*matcher]{o.Key.Name, string(o.Meta.UID), m})
			}
		}
	}
	for _, at := range atStart() {
		if l.opts.Store != nil && !at.mandatory {
			continue
		}
		name := at.key.Name
		switch {
		case at.level != nil && !slices.ContainsFunc(levels, func(s setting[*flowcontrolv1.PriorityLevelConfigurationSpec]) bool { return s.name == name }):
			levels = append(levels, setting[*flowcontrolv1.PriorityLevelConfigurationSpec]{name: name, spec: at.level})
		case at.matcher != nil && !slices.ContainsFunc(schemas, func(s setting[*matcher]) bool { return s.name == name }):
			schemas = append(schemas, setting[*matcher]{name: name, spec: at.matcher})
		}
	}
	return schemas, levels
}

// levelSpec returns what a PriorityLevelConfiguration says; nil for one that cannot be.
func levelSpec(o *object.Object) *flowcontrolv1.PriorityLevelConfigurationSpec {
	if at := startOf(o); at != nil {
		return at.level
	}
	var decoded struct {
		Spec flowcontrolv1.PriorityLevelConfigurationSpec `json:"spec"`
	}
	if json.Unmarshal(o.Raw, &decoded) != nil {
		return nil
	}
	if _, ok := settingsOf(o.Key.Name, &decoded.Spec); !ok {
		return nil
	}
	return &decoded.Spec
}

// matcherOf returns what a FlowSchema says; nil for one that cannot be read.
func matcherOf(o *object.Object) *matcher {
	if at := startOf(o); at != nil {
		return at.matcher
	}
	var decoded struct {
		Spec flowcontrolv1.FlowSchemaSpec `json:"spec"`
	}
	if json.Unmarshal(o.Raw, &decoded) != nil {
		return nil
	}
	return newMatcher(o.Key.Name, &decoded.Spec)
}
