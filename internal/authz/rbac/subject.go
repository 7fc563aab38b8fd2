package rbac

import (
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// few is the number of a subject's roles that a request walks, before it looks for a table.
	few = 8
	// walks is the number of requests that walk the roles before a table is made: together they
	// cost about as much as a table.
	walks = 8
	// maxEntries limits the entries of all tables of subjects. An entry takes some 100 bytes.
	maxEntries = 1 << 17
	// maxTable limits the entries of one table, so that there is room for others.
	maxTable = maxEntries / 4
)

// subjects keeps tables of the subjects with many roles in a scope, since at a given time only few
// such users send requests. A table belongs to one version of its scope and of the cluster's: a
// write to either invalidates it, and the next requests walk the roles again. When these walks have
// cost about as much as a table, it is made. So a table is never older than the index, a write does
// not pay for it, and requests of a user whose roles are written all the time cost at most about
// twice as much as walks.
type subjects struct {
	mu     sync.Mutex
	known  map[place]known
	weight int // number of entries in known
}

// A place is a subject in a namespace, or in the cluster ("").
type place struct {
	namespace string
	to        subjectKey
}

// known is the cached state of a place.
type known struct {
	scope, cluster *version
	asked          int           // number of requests without a table
	table          *subjectTable // nil if there is none yet
}

func (k known) weight() int {
	if k.table == nil {
		return 1
	}
	return 1 + k.table.entries
}

// table returns the table of a subject in a scope; nil if there is none yet, or if it would be too
// large.
func (c *subjects) table(x *index, s *scope, to subjectKey) *subjectTable {
	at := place{s.namespace, to}
	if k := c.ask(at, s.version, x.cluster.version); k.table != nil || k.asked != walks {
		return k.table
	}
	table := newSubjectTable(x, s, to)
	if table != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.setLocked(at, known{scope: s.version, cluster: x.cluster.version, table: table})
	}
	return table
}

// ask counts a request, and returns the cached state of a place.
func (c *subjects) ask(at place, scope, cluster *version) known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[at]
	if !ok || k.scope != scope || k.cluster != cluster {
		k = known{scope: scope, cluster: cluster}
	}
	if k.table == nil {
		k.asked++
		c.setLocked(at, k)
	}
	return k
}

func (c *subjects) setLocked(at place, k known) {
	if c.known == nil {
		c.known = map[place]known{}
	}
	if old, ok := c.known[at]; ok {
		c.weight -= old.weight()
		delete(c.known, at)
	}
	c.weight += k.weight()
	for other, old := range c.known {
		if c.weight <= maxEntries {
			break
		}
		c.weight -= old.weight()
		delete(c.known, other)
	}
	c.known[at] = k
}

// A subjectTable contains the rules of all roles of a subject in a scope. Its decisions are those
// of a walk of the roles.
type subjectTable struct {
	grants    []grant            // the first one of each role, in the order of a walk
	resources map[verbKey]int    // the first grant for all names
	named     map[nameKey]int    // the first grant for one name
	stars     [combinations]bool // whether any key has this combination of stars
	paths     []pathRole
	broken    bool // whether a role is missing
	entries   int
}

// verbKey is a verb, a group and a resource, as written in a rule.
type verbKey struct{ verb, group, resource string }

// nameKey is a verbKey and the name of an object.
type nameKey struct {
	verbKey
	name string
}

// A pathRole is a role with rules for paths.
type pathRole struct {
	grant int
	table *table
}

// combinations is the number of ways in which the parts of a key can be stars: the verb, the group,
// and either the resource, or the resource of a subresource.
const combinations = 2 * 2 * 3

// newSubjectTable returns a table; nil if it would be too large.
func newSubjectTable(x *index, s *scope, to subjectKey) *subjectTable {
	t := &subjectTable{resources: map[verbKey]int{}, named: map[nameKey]int{}}
	s.each(to, func(g grant) bool {
		r := x.role(s, g.role)
		if r == nil {
			t.broken = true
			return true
		}
		n := len(t.grants)
		t.grants = append(t.grants, g)
		t.entries++
		compiled := r.compiled()
		if len(compiled.paths) > 0 {
			t.paths = append(t.paths, pathRole{n, compiled})
		}
		for i := range r.list {
			t.add(n, &r.list[i])
		}
		return t.entries <= maxTable
	})
	if t.entries > maxTable {
		return nil
	}
	return t
}

func (t *subjectTable) add(n int, rule *rbacv1.PolicyRule) {
	for _, resource := range rule.Resources {
		for _, group := range rule.APIGroups {
			for _, verb := range rule.Verbs {
				if t.entries > maxTable {
					return
				}
				t.addKey(n, verbKey{verb, group, resource}, rule.ResourceNames)
			}
		}
	}
}

func (t *subjectTable) addKey(n int, key verbKey, names []string) {
	if _, ok := t.resources[key]; ok {
		return // an earlier grant allows the same
	}
	t.stars[combination(key.verb == rbacv1.VerbAll, key.group == rbacv1.APIGroupAll, starsOf(key.resource))] = true
	if len(names) == 0 {
		t.resources[key] = n
		t.entries++
	}
	for _, name := range names {
		if key := (nameKey{key, name}); !t.has(key) {
			t.named[key] = n
			t.entries++
		}
	}
}

func (t *subjectTable) has(key nameKey) bool {
	_, ok := t.named[key]
	return ok
}

// starsOf returns 1 for "*", 2 for a subresource of all resources, and otherwise 0.
func starsOf(resource string) int {
	switch {
	case resource == rbacv1.ResourceAll:
		return 1
	case strings.HasPrefix(resource, "*/"):
		return 2
	}
	return 0
}

func combination(verb, group bool, resource int) int {
	n := resource
	if group {
		n += 3
	}
	if verb {
		n += 6
	}
	return n
}

// first returns the first grant that allows a request.
func (t *subjectTable) first(q *question) (first grant, ok bool) {
	n := t.find(q)
	if n < 0 {
		return grant{}, false
	}
	return t.grants[n], true
}

// find returns the index of the first grant that allows a request; -1 if there is none.
func (t *subjectTable) find(q *question) int {
	if !q.ResourceRequest {
		for _, role := range t.paths {
			if role.table.allows(q) {
				return role.grant
			}
		}
		return -1
	}
	first := -1
	for v, verb := range [...]string{q.Verb, rbacv1.VerbAll} {
		for g, group := range [...]string{q.APIGroup, rbacv1.APIGroupAll} {
			for r, resource := range [...]string{q.combined, rbacv1.ResourceAll, q.anySub} {
				// A request may itself be for "*", which is a key of this form.
				if v == 1 || g == 1 || r > 0 {
					if !t.stars[combination(v == 1, g == 1, r)] || r == 2 && resource == "" {
						continue
					}
				}
				key := verbKey{verb, group, resource}
				if n, ok := t.resources[key]; ok && (first < 0 || n < first) {
					first = n
				}
				if len(t.named) > 0 {
					if n, ok := t.named[nameKey{key, q.Name}]; ok && (first < 0 || n < first) {
						first = n
					}
				}
			}
		}
	}
	return first
}
