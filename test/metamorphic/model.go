package metamorphic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A model is the expected state of the store: a map with its whole history. A version is a commit;
// version 0 is the empty store.
type model struct {
	live      map[key]*object
	commits   []commit // commits[i] is version i+1
	told      []bool   // by version: a response has its resourceVersion; those of deletions have none
	compacted int      // lists and watches cannot begin before it
	slots     [3]*listing
}

// A commit is a change of one key; a nil object is a deletion.
type commit struct {
	key           key
	before, after *object
}

// A listing is a list that is read in pages.
type listing struct {
	kind      kind
	namespace string
	selector  selector
	limit     int
	version   int // -1 after it has expired: the rest is read from the newest version
	after     key
}

func newModel() *model { return &model{live: map[key]*object{}, told: []bool{true}} }

func (m *model) head() int { return len(m.commits) }

// commit changes a key. told reports that a response will have the resourceVersion.
func (m *model) commit(k key, after *object, told bool) int {
	m.commits = append(m.commits, commit{k, m.live[k], after})
	m.told = append(m.told, told)
	if after == nil {
		delete(m.live, k)
	} else {
		after.version = m.head()
		if after.created == 0 {
			after.created = m.head()
		}
		m.live[k] = after
	}
	return m.head()
}

// at returns all objects at a version.
func (m *model) at(version int) map[key]*object {
	objects := maps.Clone(m.live)
	for _, c := range slices.Backward(m.commits[version:]) {
		if c.before == nil {
			delete(objects, c.key)
		} else {
			objects[c.key] = c.before
		}
	}
	return objects
}

// known returns the newest version up to the given one whose resourceVersion is known.
func (m *model) known(version int) int {
	for !m.told[version] {
		version--
	}
	return version
}

func (m *model) version(version int) string { return "v" + strconv.Itoa(m.known(version)) }

// selected returns the objects of a list at a version, in order.
func (m *model) selected(version int, k kind, namespace string, s selector) (keys []key, objects map[key]*object) {
	objects = m.at(version)
	for at, o := range objects {
		if at.kind == k && (namespace == "" || at.namespace == namespace) && s.matches(o) {
			keys = append(keys, at)
		}
	}
	slices.SortFunc(keys, key.compare)
	return keys, objects
}

// next makes a step of an operation, and applies it to the model.
func (m *model) next(op operation) *step {
	r := rand.New(rand.NewPCG(op.choice, 0))
	s := &step{verb: op.verb, ref: -1, past: -1}
	switch op.verb {
	case create, update, merge, jsonPatch, status, remove, get:
		m.object(r, s)
	case collection:
		m.collection(r, s)
	case list:
		m.list(r, s)
	case page:
		m.page(r, s)
	case watch:
		m.watch(r, s)
	case watchList:
		m.scope(r, s)
		keys, objects := m.selected(m.head(), s.at.kind, s.at.namespace, s.selector)
		s.want = answer{code: http.StatusOK, lines: lines(keys, objects), version: m.version(m.head())}
	case compact:
		s.marker = m.mark(r, configMaps, namespaces[0])
		m.compacted = m.head()
		s.want = answer{note: s.marker.want.String()}
	case restore:
		m.compacted = m.head()
	}
	return s
}

// object applies a step about one object.
func (m *model) object(r *rand.Rand, s *step) {
	s.at = m.pick(r, s.verb)
	old := m.live[s.at]
	switch s.verb {
	case create:
		m.desire(r, s, nil)
		if old != nil {
			s.refuse(http.StatusConflict, "AlreadyExists")
			return
		}
		next := &object{values: map[string]string{}}
		next.change(s)
		if s.at.kind.custom() {
			next.generation = 1
		}
		s.learn = m.commit(s.at, next, true)
		s.want = answer{code: http.StatusCreated, lines: lines([]key{s.at}, m.live)}
	case get:
		if old == nil {
			s.refuse(http.StatusNotFound, "NotFound")
			return
		}
		s.want = answer{code: http.StatusOK, lines: lines([]key{s.at}, m.live)}
	case remove:
		m.preconditions(r, s, old)
		m.remove(s, old)
	case status:
		s.phase = "phase-" + strconv.Itoa(r.IntN(3))
		if old == nil {
			s.refuse(http.StatusNotFound, "NotFound")
			return
		}
		next := old.clone()
		next.phase = s.phase
		m.write(s, old, next)
	default:
		m.preconditions(r, s, old)
		m.desire(r, s, old)
		switch {
		case old == nil:
			s.refuse(http.StatusNotFound, "NotFound")
		case s.verb == jsonPatch && s.ref >= 0 && s.ref != old.version:
			s.refuse(http.StatusUnprocessableEntity, "Invalid") // a test operation in the patch
		case s.verb == update && s.uid != 0 && s.uid != old.created, s.ref >= 0 && s.ref != old.version:
			s.refuse(http.StatusConflict, "Conflict")
		case s.uid != 0 && s.uid != old.created: // in a patch it is not a precondition, but an immutable field
			s.refuse(http.StatusUnprocessableEntity, "Invalid")
		case s.verb == update && s.ref < 0 && s.at.kind.custom():
			s.refuse(http.StatusUnprocessableEntity, "Invalid")
		default:
			next := old.clone()
			if s.verb == update {
				next.app, next.finalizers, next.values = "", nil, map[string]string{}
			}
			next.change(s)
			m.write(s, old, next)
		}
	}
}

func (s *step) refuse(code int, reason string) { s.want = answer{code: code, reason: reason} }

// change applies the values of a step to an object.
func (o *object) change(s *step) {
	if s.app != nil {
		o.app = *s.app
	}
	if s.writes {
		o.finalizers = s.finalize
	}
	for name, value := range s.set {
		if value == nil {
			delete(o.values, name)
		} else {
			o.values[name] = *value
		}
	}
}

// write replaces an object.
func (m *model) write(s *step, old, next *object) {
	for _, f := range next.finalizers {
		if old.deleting && !slices.Contains(old.finalizers, f) {
			s.refuse(http.StatusUnprocessableEntity, "Invalid")
			return
		}
	}
	if next.deleting && len(next.finalizers) == 0 {
		m.commit(s.at, nil, false)
		s.want = answer{code: http.StatusOK, note: "removed"}
		return
	}
	if !next.same(old) {
		if !next.sameSpec(old) && old.generation > 0 {
			next.generation++
		}
		s.learn = m.commit(s.at, next, true)
	} else {
		s.stays = old.version
	}
	s.want = answer{code: http.StatusOK, lines: lines([]key{s.at}, m.live)}
}

// remove deletes an object, or marks it as deleted.
func (m *model) remove(s *step, old *object) {
	switch {
	case old == nil:
		s.refuse(http.StatusNotFound, "NotFound")
	case s.uid != 0 && s.uid != old.created, s.ref >= 0 && s.ref != old.version:
		s.refuse(http.StatusConflict, "Conflict")
	case len(old.finalizers) == 0:
		m.commit(s.at, nil, false)
		s.want = answer{code: http.StatusOK, note: fmt.Sprintf("deleted #%d", old.created)}
	default:
		if m.wait(s.at, old) {
			s.learn = m.head()
		}
		s.want = answer{code: http.StatusOK, lines: lines([]key{s.at}, m.live)}
	}
}

// wait marks an object that is deleted when its finalizers are removed.
func (m *model) wait(k key, old *object) bool {
	if old.deleting {
		return false
	}
	next := old.clone()
	next.deleting = true
	if next.generation > 0 {
		next.generation++
	}
	m.commit(k, next, true)
	return true
}

func (m *model) collection(r *rand.Rand, s *step) {
	m.scope(r, s)
	if s.at.namespace == "" {
		s.at.namespace = namespaces[1] // there is no such request for all namespaces
	}
	keys, objects := m.selected(m.head(), s.at.kind, s.at.namespace, s.selector)
	s.want = answer{code: http.StatusOK, version: m.version(m.head()), lines: lines(keys, objects)}
	s.versions = map[key]int{}
	for _, k := range keys {
		if old := m.live[k]; len(old.finalizers) == 0 {
			m.commit(k, nil, false)
		} else if m.wait(k, old) {
			s.versions[k] = m.head()
		}
	}
}

func (m *model) list(r *rand.Rand, s *step) {
	m.scope(r, s)
	version := m.head()
	switch r.IntN(4) {
	case 0: // of the newest
	case 1:
		s.ref = m.past(r) // not older
	default:
		s.ref, s.exact = m.past(r), true
		version, s.past = s.ref, s.ref
		if version < m.compacted {
			s.refuse(http.StatusGone, expired)
			return
		}
	}
	keys, objects := m.selected(version, s.at.kind, s.at.namespace, s.selector)
	s.want = answer{code: http.StatusOK, version: m.version(version), lines: lines(keys, objects)}
}

func (m *model) page(r *rand.Rand, s *step) {
	s.slot = r.IntN(len(m.slots))
	l := m.slots[s.slot]
	version := m.head()
	if l == nil || r.IntN(5) == 0 {
		m.scope(r, s)
		s.first, s.limit = true, 1+r.IntN(4)
		l = &listing{kind: s.at.kind, namespace: s.at.namespace, selector: s.selector, limit: s.limit}
		if r.IntN(3) == 0 {
			s.ref, s.exact = m.past(r), true
			version, s.past = s.ref, s.ref
		}
	} else {
		s.at, s.selector, s.limit = key{kind: l.kind, namespace: l.namespace}, l.selector, l.limit
		if l.version >= 0 {
			version, s.past = l.version, l.version
		}
	}
	m.slots[s.slot] = nil
	if version < m.compacted {
		s.refuse(http.StatusGone, expired)
		if !s.first {
			s.want.more = "token"
			l.version = -1
			m.slots[s.slot] = l
		}
		return
	}
	keys, objects := m.selected(version, l.kind, l.namespace, l.selector)
	keys = slices.DeleteFunc(keys, func(k key) bool { return k.compare(l.after) <= 0 })
	if rest := len(keys) - l.limit; rest > 0 {
		keys = keys[:l.limit]
		s.want.more = "more"
		if l.selector == "" {
			s.want.more = fmt.Sprintf("more: %d", rest)
		}
		l.version, l.after = version, keys[len(keys)-1]
		m.slots[s.slot] = l
	}
	s.want.code, s.want.version, s.want.lines = http.StatusOK, m.version(version), lines(keys, objects)
}

func (m *model) watch(r *rand.Rand, s *step) {
	m.scope(r, s)
	s.ref, s.live = m.past(r), r.IntN(2) == 0
	m.follow(r, s)
}

// follow writes the marker that ends a watch, and returns the events up to it.
func (m *model) follow(r *rand.Rand, s *step) {
	s.past = s.ref
	namespace := s.at.namespace
	if namespace == "" {
		namespace = namespaces[0]
	}
	s.marker = m.mark(r, s.at.kind, namespace)
	s.want = answer{code: http.StatusOK, note: s.marker.want.String()}
	if s.ref < m.compacted {
		s.want.code, s.want.reason = http.StatusGone, expired
		return
	}
	for i, c := range m.commits[s.ref:] {
		if c.key.kind != s.at.kind || s.at.namespace != "" && c.key.namespace != s.at.namespace {
			continue
		}
		version := s.ref + i + 1
		was, is := c.before != nil && s.selector.matches(c.before), c.after != nil && s.selector.matches(c.after)
		name := "v*"
		if m.told[version] {
			name = m.version(version)
		}
		switch {
		case is && was:
			s.want.lines = append(s.want.lines, "MODIFIED "+c.after.text(c.key, name))
		case is:
			s.want.lines = append(s.want.lines, "ADDED "+c.after.text(c.key, name))
		case was:
			s.want.lines = append(s.want.lines, "DELETED "+c.before.text(c.key, name))
		}
	}
}

// mark writes an object that all selectors match.
func (m *model) mark(r *rand.Rand, k kind, namespace string) *step {
	s := &step{verb: merge, at: key{k, namespace, "marker"}, ref: -1, past: -1}
	app, value := "a", fmt.Sprintf("%d-%d", m.head(), r.IntN(10))
	s.app, s.set = &app, map[string]*string{"mark": &value}
	old := m.live[s.at]
	if old == nil {
		s.verb = create
		next := &object{values: map[string]string{}}
		next.change(s)
		if k.custom() {
			next.generation = 1
		}
		s.learn = m.commit(s.at, next, true)
		s.want = answer{code: http.StatusCreated, lines: lines([]key{s.at}, m.live)}
		return s
	}
	next := old.clone()
	next.change(s)
	m.write(s, old, next)
	return s
}

// pick returns an object, more often an existing one.
func (m *model) pick(r *rand.Rand, v verb) key {
	k := kinds[r.IntN(len(kinds))]
	switch {
	case v == status:
		k = widgets
	case v == jsonPatch:
		k = widgets
	}
	if v != create && r.IntN(8) > 0 {
		var there []key
		for at := range m.live {
			if at.kind == k && at.name != "marker" {
				there = append(there, at)
			}
		}
		if len(there) > 0 {
			slices.SortFunc(there, key.compare)
			return there[r.IntN(len(there))]
		}
	}
	return key{k, namespaces[r.IntN(len(namespaces))], string(rune('a' + r.IntN(7)))}
}

// desire chooses the values of a write.
func (m *model) desire(r *rand.Rand, s *step, old *object) {
	s.set = map[string]*string{}
	for range r.IntN(3) {
		name, value := "k"+strconv.Itoa(r.IntN(3)), strconv.Itoa(r.IntN(4))
		if r.IntN(10) == 0 {
			value = strings.Repeat(value+"-"+strconv.Itoa(r.IntN(100))+" ", 100+r.IntN(3000))
		}
		s.set[name] = &value
		if s.verb == merge && r.IntN(3) == 0 {
			s.set[name] = nil
		}
	}
	if s.verb == jsonPatch {
		return
	}
	if s.verb == create || s.verb == update || r.IntN(3) == 0 {
		app := []string{"", "a", "b", "c"}[r.IntN(4)]
		s.app = &app
	}
	switch {
	case s.verb == create:
		s.writes = r.IntN(3) == 0
	case old != nil && len(old.finalizers) > 0:
		s.writes = s.verb == update || r.IntN(2) == 0
	default:
		s.writes = r.IntN(6) == 0
	}
	if s.writes {
		all := []string{"test.kapok.dev/a", "test.kapok.dev/b"}
		s.finalize = slices.Clone(all[r.IntN(2):][:r.IntN(2)])
		if r.IntN(4) == 0 {
			s.finalize = all
		}
	}
}

// preconditions chooses the preconditions of a write.
func (m *model) preconditions(r *rand.Rand, s *step, old *object) {
	if s.verb != jsonPatch && r.IntN(8) == 0 {
		if s.uid = m.head(); old != nil && r.IntN(2) == 0 {
			s.uid = old.created
		}
		// A version at which no object was created has no uid.
		if s.uid == 0 || m.commits[s.uid-1].before != nil || m.commits[s.uid-1].after == nil {
			s.uid = 0
		}
	}
	switch r.IntN(5) {
	case 0, 1, 2:
		if old != nil {
			s.ref = old.version
		}
	case 3:
		s.ref = m.known(r.IntN(m.head() + 1))
	}
}

// past returns a version for the beginning of a list or a watch, more often a recent one.
func (m *model) past(r *rand.Rand) int {
	back := m.head() + 1
	if r.IntN(2) == 0 {
		back = min(back, 12)
	}
	return m.known(m.head() - r.IntN(back))
}

// scope returns the scope of a list or a watch.
func (m *model) scope(r *rand.Rand, s *step) {
	s.at.kind = kinds[r.IntN(len(kinds))]
	// Other namespaces have config maps of the server.
	if n := r.IntN(3); n < 2 || s.at.kind == configMaps {
		s.at.namespace = namespaces[n%2]
	}
	s.selector = selectors[r.IntN(len(selectors))]
}

// lines returns the texts of objects.
func lines(keys []key, objects map[key]*object) (all []string) {
	for _, k := range keys {
		all = append(all, objects[k].text(k, "v"+strconv.Itoa(objects[k].version)))
	}
	return all
}
