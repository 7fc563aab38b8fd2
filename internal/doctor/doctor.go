// Package doctor examines a store: whether every object can be read and matches its key, whether
// the indices of the state machine agree with its objects and its history, and whether the journal
// agrees with the state machine.
//
// An examination changes nothing, and can run while the store is written: objects are compared at
// one revision or not at all, so that concurrent writes are not reported as problems. It takes
// about as long as opening the store, and needs some memory for each object.
//
// The package starts no goroutine and has no locks.
package doctor

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
)

// Report is the result of an examination.
type Report struct {
	// Revision of the store when it was examined.
	Revision object.Revision `json:"revision"`
	// Compacted is the revision up to which history is gone.
	Compacted object.Revision `json:"compacted"`
	// Objects are the live ones.
	Objects int `json:"objects"`
	// Records are all that the journal stores, history included, and Bytes their
	// size. Both are zero for a journal that keeps nothing.
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Archived are the revisions in the archive, and ArchivedBytes their size.
	Archived      int   `json:"archived,omitempty"`
	ArchivedBytes int64 `json:"archivedBytes,omitempty"`
	// Problems are the first problems, MaxProblems at most. It is not nil.
	Problems []Problem `json:"problems"`
	// More is the number of further problems.
	More int `json:"more,omitempty"`
}

// MaxProblems is the number of problems that a report lists.
const MaxProblems = 1000

// Problem is something that does not fit.
type Problem struct {
	// Object is the key that it is about, in the form resource.group/namespace/name,
	// as well as that is known; empty if it is about the store.
	Object string `json:"object,omitempty"`
	// Revision is that of the record; zero if it is about no single one.
	Revision object.Revision `json:"revision,omitempty"`
	Text     string          `json:"text"`
}

// String is the problem in one line.
func (p Problem) String() string {
	text := p.Text
	if p.Object != "" {
		text = p.Object + ": " + text
	}
	if p.Revision != 0 {
		text += fmt.Sprintf(" (revision %d)", p.Revision)
	}
	return text
}

// Healthy reports whether no problem was found.
func (r *Report) Healthy() bool { return len(r.Problems) == 0 }

// Add adds a problem to the report.
func (r *Report) Add(p Problem) {
	if len(r.Problems) < MaxProblems {
		r.Problems = append(r.Problems, p)
		return
	}
	r.More++
}

// AddAll adds the problems that a journal has found.
func (r *Report) AddAll(found []journal.Problem) {
	for _, p := range found {
		problem := Problem{Revision: p.Revision, Text: p.Text}
		switch {
		case p.Key.Name != "":
			problem.Object = p.Key.String()
		case p.Key.Resource.Resource != "":
			problem.Object = p.Key.Resource.String()
		}
		r.Add(problem)
	}
}

// Examine examines a state and the journal behind it. After an error the examination is incomplete;
// the report has the problems found until then.
func Examine(ctx context.Context, st *state.State) (*Report, error) {
	e := &examination{ctx: ctx, state: st, report: &Report{Problems: []Problem{}}}
	for _, step := range []func() error{e.objects, e.owners, e.history, e.journal} {
		if err := step(); err != nil {
			return e.report, fmt.Errorf("examine the store: %w", err)
		}
	}
	return e.report, nil
}

// examination is one under way. Its steps are in files of their names.
type examination struct {
	ctx    context.Context // of Examine, and gone with it
	state  *state.State
	report *Report

	revision object.Revision  // of the tables
	tables   []state.Snapshot // of all resources, when the examination began
}

func (e *examination) problem(key object.Key, rev object.Revision, format string, args ...any) {
	e.report.AddAll([]journal.Problem{{Key: key, Revision: rev, Text: fmt.Sprintf(format, args...)}})
}

// patience is the number of attempts to read something that changes while it is read.
const patience = 5
