package rbac

import (
	"fmt"
	"strings"
)

// Walk returns an Authorizer with the same roles, but without tables of subjects.
func (a *Authorizer) Walk() *Authorizer { return &Authorizer{index: a.index} }

// Tables returns the number of subjects with a table, and the number of all entries.
func (a *Authorizer) Tables() (tables, entries int) {
	a.tables.mu.Lock()
	defer a.tables.mu.Unlock()
	sum := 0
	for _, k := range a.tables.known {
		if k.table != nil {
			tables++
		}
		sum += k.weight()
	}
	if sum != a.tables.weight {
		panic("the weight is wrong")
	}
	return tables, sum
}

// The limits of the tables of subjects.
const Few, Walks, MaxEntries, MaxTable = few, walks, maxEntries, maxTable

// Work updates the index, and returns the work of the last step.
func (a *Authorizer) Work() (objects, grants int) {
	w := a.index.Load().work
	return w.objects, w.grants
}

// Dump updates the index, and returns its content.
func (a *Authorizer) Dump() string {
	x := a.index.Load()
	var out strings.Builder
	dump := func(s *scope) bool {
		fmt.Fprintf(&out, "%q\n", s.namespace)
		s.roles.Scan(func(name string, r *role) bool {
			fmt.Fprintf(&out, "  role %s %s\n", name, r.object.Raw)
			return true
		})
		s.bindings.Scan(func(name string, b *binding) bool {
			fmt.Fprintf(&out, "  binding %s %v %v\n", name, b.ref, b.subjects)
			return true
		})
		s.grants.Scan(func(g grant) bool {
			known, _ := s.bindings.Get(g.binding.key.Name)
			fmt.Fprintf(&out, "  %v: %v by %s, %d, of a binding that is known: %v\n", g.to, g.role, g.binding.key, g.place, known == g.binding)
			return true
		})
		return true
	}
	dump(x.cluster)
	x.namespaces.Scan(func(_ string, s *scope) bool { return dump(s) })
	return out.String()
}
