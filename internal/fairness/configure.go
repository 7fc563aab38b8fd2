package fairness

import (
	"encoding/json"
	"reflect"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/tidwall/btree"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources of the configuration.
var (
	FlowSchemas    = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "flowschemas"}
	PriorityLevels = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"}
)

// A configuration classifies requests. It is immutable, except for its levels. Its trees share
// unchanged parts with those of the previous configuration.
type configuration struct {
	flows    *btree.BTreeG[*flow] // in order of matching
	catchAll *flow
	levels   []*level
	byName   map[string]*level

	schemas   btree.Map[string, setting[*matcher]]
	specs     btree.Map[string, setting[*flowcontrolv1.PriorityLevelConfigurationSpec]]
	templates map[string]*flow // flows without a schema, by name of the level

	work work // cost of making it, for tests
}

// work counts the decoded objects and the flows of one call of configure.
type work struct{ read, flows int }

func newFlows() *btree.BTreeG[*flow] {
	return btree.NewBTreeGOptions(func(a, b *flow) bool { return a.schema.compare(b.schema) < 0 }, btree.Options{NoLocks: true})
}

// A flow is a schema together with the level that it refers to.
type flow struct {
	schema *matcher
	level  *level
	tally  *tally // guarded by the lock of the level
	exempt bool
	queued bool
	most   int // maximum seats of a request

	schemaUID, levelUID []string // values of response headers
}

// classify returns the flow of a request.
func (c *configuration) classify(a *authz.Attributes) *flow {
	found := c.catchAll // for users without any group
	c.flows.Scan(func(f *flow) bool {
		if f.schema.matches(a) {
			found = f
			return false
		}
		return true
	})
	return found
}

// configuration returns the current configuration.
func (l *Limiter) configuration() *configuration {
	if l.config != nil {
		return l.config.Load()
	}
	l.fixed.Do(func() { l.configure(nil, &state.Changes{}) })
	return l.current.Load()
}

// A setting is an object of the configuration. A spec of nil stands for no object.
type setting[T any] struct {
	name, uid string
	spec      T
}

// configure returns a configuration with the given changes. The cost of a change of schemas depends
// only on these schemas. If a level has changed, all flows are made again, but not decoded, because
// all levels share the seats.
func (l *Limiter) configure(last *configuration, changes *state.Changes) *configuration {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &configuration{}
	levels := last == nil
	if last == nil {
		for _, d := range defaults() {
			c.setSpec(d.Key.Name, l.missingSpec(d.Key.Name))
			c.setSchema(d.Key.Name, l.missingSchema(d.Key.Name))
		}
	} else {
		c.schemas, c.specs = *last.schemas.Copy(), *last.specs.Copy()
	}
	var schemas []string // names of the changed ones
	for key, o := range changes.Objects() {
		if o != nil {
			c.work.read++
		}
		if key.Resource == PriorityLevels {
			s := l.missingSpec(key.Name)
			if o != nil {
				if spec := LevelOf(o); spec != nil {
					s = setting[*flowcontrolv1.PriorityLevelConfigurationSpec]{key.Name, string(o.Meta.UID), spec}
				}
			}
			levels = c.setSpec(key.Name, s) || levels
			continue
		}
		s := l.missingSchema(key.Name)
		if o != nil {
			if m := matcherOf(o); m != nil {
				s = setting[*matcher]{key.Name, string(o.Meta.UID), m}
			}
		}
		if c.setSchema(key.Name, s) {
			schemas = append(schemas, key.Name)
		}
	}
	if levels {
		now := l.now()
		l.configureLocked(now, c, last)
		l.adjustLocked(now, c)
	} else {
		c.follow(last, schemas)
	}
	l.current.Store(c)
	return c
}

// setSpec sets a level, or removes it if s has no specification, and reports whether that was a
// change.
func (c *configuration) setSpec(name string, s setting[*flowcontrolv1.PriorityLevelConfigurationSpec]) bool {
	if s.spec == nil {
		_, had := c.specs.Delete(name)
		return had
	}
	last, _ := c.specs.Set(name, s)
	return !reflect.DeepEqual(last, s)
}

// setSchema sets a schema, or removes it if s has no matcher, and reports whether that was a
// change.
func (c *configuration) setSchema(name string, s setting[*matcher]) bool {
	if s.spec == nil {
		_, had := c.schemas.Delete(name)
		return had
	}
	last, _ := c.schemas.Set(name, s)
	return !reflect.DeepEqual(last, s)
}

// missingSpec returns the default of a level that is not stored: Kubernetes' default object if it
// is mandatory, or if there is no State.
func (l *Limiter) missingSpec(name string) (none setting[*flowcontrolv1.PriorityLevelConfigurationSpec]) {
	for _, d := range defaults() {
		if d.Level != nil && d.Key.Name == name && (d.Mandatory || l.opts.State == nil) {
			return setting[*flowcontrolv1.PriorityLevelConfigurationSpec]{name: name, spec: d.Level}
		}
	}
	return none
}

// missingSchema is missingSpec for a schema.
func (l *Limiter) missingSchema(name string) (none setting[*matcher]) {
	for _, d := range defaults() {
		if d.matcher != nil && d.Key.Name == name && (d.Mandatory || l.opts.State == nil) {
			return setting[*matcher]{name: name, spec: d.matcher}
		}
	}
	return none
}

// configureLocked makes the levels and all flows.
func (l *Limiter) configureLocked(now instant, c, last *configuration) {
	c.flows, c.byName, c.templates = newFlows(), map[string]*level{}, map[string]*flow{}
	var sum float64
	for _, s := range c.specs.Values() {
		own, _, _ := sharesOf(s.spec)
		sum += float64(own)
	}
	for _, s := range c.specs.Values() {
		is, _ := settingsOf(s.name, s.spec) // valid: LevelOf has checked it
		share := shareOf(s.spec, l.seats(), sum)
		var level *level
		if last != nil {
			level = last.byName[s.name]
		}
		if level == nil {
			level = newLevel(l, s.name, now)
		}
		level.configure(now, is, share)
		c.levels = append(c.levels, level)
		c.byName[s.name] = level
		c.templates[s.name] = &flow{
			level: level, levelUID: []string{s.uid},
			exempt: is.exempt, queued: is.queues > 0, most: widest(is, share.nominal),
		}
	}
	used := map[*tally]bool{}
	for _, s := range c.schemas.Values() {
		if f := c.add(s); f != nil {
			used[f.tally] = true
		}
	}
	for _, level := range c.levels {
		level.forget(used)
	}
}

// follow copies the last configuration, and makes the flows of the changed schemas again.
func (c *configuration) follow(last *configuration, schemas []string) {
	c.flows, c.catchAll, c.levels, c.byName, c.templates = last.flows.Copy(), last.catchAll, last.levels, last.byName, last.templates
	for _, name := range schemas {
		var gone *flow
		if s, ok := last.schemas.Get(name); ok {
			gone, _ = c.flows.Delete(&flow{schema: s.spec})
		}
		if gone == c.catchAll {
			c.catchAll = nil
		}
		var f *flow
		if s, ok := c.schemas.Get(name); ok {
			f = c.add(s)
		}
		if gone != nil && (f == nil || f.tally != gone.tally) {
			gone.level.retire(gone.tally)
		}
	}
}

// add makes the flow of a schema. It returns nil if the level does not exist.
func (c *configuration) add(s setting[*matcher]) *flow {
	t := c.templates[s.spec.level]
	if t == nil {
		return nil
	}
	f := *t
	f.schema, f.schemaUID = s.spec, []string{s.uid}
	f.tally = f.level.tally(s.name)
	c.flows.Set(&f)
	c.work.flows++
	if s.name == flowcontrolv1.FlowSchemaNameCatchAll {
		c.catchAll = &f
	}
	return &f
}

// LevelOf returns the specification of a PriorityLevelConfiguration; nil if it is invalid.
func LevelOf(o *object.Object) *flowcontrolv1.PriorityLevelConfigurationSpec {
	if d := defaultOf(o); d != nil {
		return d.Level
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

// matcherOf returns the matcher of a FlowSchema; nil if the schema cannot be decoded.
func matcherOf(o *object.Object) *matcher {
	if d := defaultOf(o); d != nil {
		return d.matcher
	}
	var decoded struct {
		Spec flowcontrolv1.FlowSchemaSpec `json:"spec"`
	}
	if json.Unmarshal(o.Raw, &decoded) != nil {
		return nil
	}
	return newMatcher(o.Key.Name, &decoded.Spec)
}

// LevelNameOf returns the name of the priority level of a FlowSchema. ok is false if the schema
// cannot be decoded.
func LevelNameOf(o *object.Object) (name string, ok bool) {
	m := matcherOf(o)
	if m == nil {
		return "", false
	}
	return m.level, true
}
