package crash

import (
	"strings"
	"testing"
)

// at returns an object of the first incarnation of its name.
func at(step int, rv uint64) object { return object{uid: "u1", rv: rv, step: step} }

// past returns a history of a create, an update, and the given writes.
func past(more ...write) *history {
	return &history{name: "x", writes: append([]write{
		{kind: "ADDED", step: 1, outcome: acknowledged, object: at(1, 10)},
		{kind: "MODIFIED", step: 2, outcome: acknowledged, object: at(2, 20)},
	}, more...)}
}

func TestSettle(t *testing.T) {
	var (
		changing = write{kind: "MODIFIED", step: 3}
		deleting = write{kind: "DELETED", step: 3}
		deleted  = write{kind: "DELETED", step: 3, outcome: acknowledged, object: at(2, 20)}
		creating = write{kind: "ADDED", step: 4}
		again    = object{uid: "u2", rv: 40, step: 4}
	)
	for _, tc := range []struct {
		name  string
		past  *history
		found object
		last  outcome
		fails bool
	}{
		{"nothing open", past(), at(2, 20), acknowledged, false},
		{"older content", past(), at(1, 10), acknowledged, true},
		{"another revision", past(), at(2, 21), acknowledged, true},
		{"another object", past(), object{uid: "u2", rv: 20, step: 2}, acknowledged, true},
		{"gone", past(), object{}, acknowledged, true},
		{"open change happened", past(changing), at(3, 30), happened, false},
		{"open change did not", past(changing), at(2, 20), void, false},
		{"open change and older content", past(changing), at(1, 10), void, true},
		{"open change at an old revision", past(changing), at(3, 20), void, true},
		{"open change and gone", past(changing), object{}, void, true},
		{"half of a change", past(changing), at(2, 30), void, true},
		{"open deletion happened", past(deleting), object{}, happened, false},
		{"open deletion did not", past(deleting), at(2, 20), void, false},
		{"deleted", past(deleted), object{}, acknowledged, false},
		{"came back", past(deleted), at(2, 20), acknowledged, true},
		{"open creation happened", past(deleted, creating), again, happened, false},
		{"open creation did not", past(deleted, creating), object{}, void, false},
		{"came back under an open creation", past(deleted, creating), at(2, 20), void, true},
		{"never there", &history{name: "x"}, object{}, void, false},
		{"out of nothing", &history{name: "x"}, at(1, 10), void, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.past.settle(tc.found)
			if (err != nil) != tc.fails {
				t.Errorf("got %v", err)
			}
			if n := len(tc.past.writes); n > 0 && tc.past.writes[n-1].outcome != tc.last {
				t.Errorf("the last write is taken for %v", tc.past.writes[n-1])
			}
		})
	}
}

func TestCompareEvents(t *testing.T) {
	var (
		unanswered = write{kind: "MODIFIED", step: 3, outcome: void}
		deleted    = write{kind: "DELETED", step: 4, outcome: acknowledged, object: at(2, 20)}
		h          = past(unanswered, deleted)

		added    = event{"ADDED", "x", at(1, 10)}
		modified = event{"MODIFIED", "x", at(2, 20)}
		gone     = event{"DELETED", "x", at(2, 40)}
		phantom  = event{"MODIFIED", "x", at(3, 30)}
	)
	for _, tc := range []struct {
		name   string
		events []event
		want   string
	}{
		{"all", []event{added, modified, gone}, ""},
		{"none", nil, "left out ADDED"},
		{"the last is missing", []event{added, modified}, "left out DELETED"},
		{"one in between is missing", []event{added, gone}, "want MODIFIED"},
		{"twice", []event{added, modified, modified, gone}, "want DELETED"},
		{"the last twice", []event{added, modified, gone, gone}, "which was not written"},
		{"in another order", []event{modified, added, gone}, "want ADDED"},
		{"what did not happen", []event{added, modified, phantom, gone}, "want DELETED"},
		{"deleted at the revision before", []event{added, modified, {"DELETED", "x", at(2, 20)}}, "want DELETED"},
		{"deleted in another state", []event{added, modified, {"DELETED", "x", at(1, 40)}}, "want DELETED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := h.compare(tc.events)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestOrderedAndUnique(t *testing.T) {
	events := func(rvs ...uint64) (list []event) {
		for _, rv := range rvs {
			list = append(list, event{"ADDED", "x", object{rv: rv}})
		}
		return list
	}
	for _, tc := range []struct {
		events []event
		fails  bool
	}{
		{nil, false}, {events(11, 12, 20), false}, {events(10), true}, {events(11, 11), true}, {events(12, 11), true},
	} {
		if err := ordered(10, tc.events); (err != nil) != tc.fails {
			t.Errorf("%v: got %v", tc.events, err)
		}
	}
	other := &history{name: "y", writes: []write{
		{kind: "ADDED", outcome: acknowledged, object: at(1, 11)},
		{kind: "MODIFIED", outcome: void},
		{kind: "MODIFIED", outcome: void},
		{kind: "DELETED", outcome: acknowledged, object: at(1, 11)},
	}}
	if err := unique([]*history{past(), other}); err != nil {
		t.Error(err)
	}
	other.writes[0].rv = 20
	if err := unique([]*history{past(), other}); err == nil {
		t.Error("a revision that was given twice was not found")
	}
}
