package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Report is a history, which [Check] checks.
type Report struct {
	Seed       uint64
	Operations []Operation
	Streams    []Stream
	// First and Final are the revisions that bound the history: before the first write of a kind,
	// and that of the last one.
	First, Final map[Kind]Revision

	Elapsed              time.Duration // of the load
	Connections, Relists int           // of all watchers
}

// String summarizes the history.
func (r *Report) String() string {
	outcomes := map[Outcome]int{}
	verbs := map[Verb]int{}
	for i := range r.Operations {
		outcomes[r.Operations[i].Outcome]++
		if r.Operations[i].Outcome == Done {
			verbs[r.Operations[i].Verb]++
		}
	}
	events := 0
	seen := map[string]bool{}
	for _, s := range r.Streams {
		events += len(s.Events)
		for _, e := range s.Events {
			seen[e.Object.Value] = true
		}
	}
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Outcome == Unknown && o.Verb != Delete && seen[o.Value] {
			outcomes["unknown, but seen to have happened"]++
		}
	}
	outcomes["unknown"] = outcomes[Unknown]
	delete(outcomes, Unknown)
	return fmt.Sprintf("%d operations, %.0f a second (%s), of those done %s; %d events over %d connections, %d relists",
		len(r.Operations), float64(len(r.Operations))/r.Elapsed.Seconds(), counts(outcomes), counts(verbs),
		events, r.Connections, r.Relists)
}

func counts[K ~string](m map[K]int) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprint(m[k], " ", k))
	}
	return strings.Join(words, ", ")
}
