package fields

import (
	"cmp"
	"slices"
	"strings"
)

// maxUpdaters is the maximum number of update entries of an object. If there are more, the oldest
// of each version are merged.
const (
	maxUpdaters = 10
	ancient     = "ancient-changes"
)

// capped merges the oldest update entries of a version as long as there are too many.
func (m managed) capped() managed {
	var updaters []identity
	known := map[identity]*entry{}
	for i := range m {
		if !m[i].apply {
			updaters = append(updaters, m[i].identity)
			known[m[i].identity] = &m[i]
		}
	}
	if len(updaters) <= maxUpdaters {
		return m
	}
	slices.SortFunc(updaters, func(a, b identity) int {
		if c := cmp.Compare(known[a].seconds, known[b].seconds); c != 0 {
			return c
		}
		return strings.Compare(a.String(), b.String())
	})
	first := map[string]identity{} // the oldest updater of a version
	for i, n := 0, len(updaters); i < len(updaters) && n > maxUpdaters; i++ {
		e := known[updaters[i]]
		oldest, ok := first[e.version]
		if !ok {
			first[e.version] = e.identity
			continue
		}
		bucket := newIdentity(ancient, "", e.version, false)
		into := known[bucket]
		if into == nil {
			into = known[oldest]
			delete(known, oldest)
			into.identity, known[bucket] = bucket, into
		}
		into.own(union(into.fields, e.fields))
		into.fresh = into.fresh || e.fresh
		into.time, into.timed, into.seconds = e.time, e.timed, e.seconds
		delete(known, updaters[i])
		n--
	}
	return slices.DeleteFunc(m, func(e entry) bool { return !e.apply && known[e.identity] == nil })
}
