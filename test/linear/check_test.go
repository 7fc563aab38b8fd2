package linear

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	a = Key{Registers, "a"}
	b = Key{Registers, "b"}
	z = Key{Registers, "z"}

	a1 = Object{"u1", 10, "v1"}
	a2 = Object{"u1", 20, "v2"}
	a3 = Object{"u2", 40, "v3"}
	b1 = Object{"u3", 50, "v4"}
	b2 = Object{"u3", 60, "v5"}
	z1 = Object{"u4", 80, "v6"}
)

// op returns an operation that begins at a time and takes nine units.
func op(at int, o Operation) Operation {
	o.Call = time.Duration(at)
	if o.Return = o.Call + 9; o.Outcome == Unknown {
		o.Return = o.Call + 1000
	}
	return o
}

func event(at int, typ EventType, k Key, o Object) Event {
	return Event{Type: typ, Name: k.Name, Object: o, Seen: time.Duration(at)}
}

func deletedAt(o Object, r Revision) Object {
	o.Revision = r
	return o
}

// The operations of past, by their indices.
const (
	createA = iota
	updateA
	getA
	deleteA
	createAgain
	createB
	listBoth
	updateB
	getB
	deleteB
	getGone
	lost
	createZ
)

// past returns a correct history: of an object that was deleted and created again, and of one whose
// update and deletion were not acknowledged, but happened.
func past() *Report {
	mark := Event{Type: Bookmark, Object: Object{Revision: 25}, Seen: 45}
	events := []Event{
		event(12, Added, a, a1), event(25, Modified, a, a2), mark, event(65, Deleted, a, deletedAt(a2, 30)),
		event(85, Added, a, a3), event(105, Added, b, b1), event(150, Modified, b, b2),
		event(230, Deleted, b, deletedAt(b2, 70)), event(305, Added, z, z1),
	}
	return &Report{
		Operations: []Operation{
			createA:     op(0, Operation{Verb: Create, Key: a, Value: "v1", Outcome: Done, Object: a1}),
			updateA:     op(20, Operation{Verb: Update, Key: a, Value: "v2", Revision: 10, Outcome: Done, Object: a2}),
			getA:        op(40, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: Done, Object: a2}),
			deleteA:     op(60, Operation{Verb: Delete, Key: a, UID: "u1", Outcome: Done, Object: Object{UID: "u1"}}),
			createAgain: op(80, Operation{Verb: Create, Key: a, Value: "v3", Outcome: Done, Object: a3}),
			createB:     op(100, Operation{Verb: Create, Key: b, Value: "v4", Outcome: Done, Object: b1}),
			listBoth: op(120, Operation{Verb: List, Mode: Latest, Key: Key{Kind: Registers}, Outcome: Done,
				Pages: []Page{{50, []Item{{"a", a3}}}, {50, []Item{{"b", b1}}}}}),
			updateB: op(140, Operation{Verb: Update, Key: b, Value: "v5", Revision: 50}),
			getB:    op(200, Operation{Verb: Get, Mode: Latest, Key: b, Outcome: Done, Object: b2}),
			deleteB: op(220, Operation{Verb: Delete, Key: b, Revision: 60}),
			getGone: op(240, Operation{Verb: Get, Mode: Latest, Key: b, Outcome: NotFound}),
			lost:    op(260, Operation{Verb: Create, Key: b, Value: "v7"}),
			createZ: op(300, Operation{Verb: Create, Key: z, Value: "v6", Outcome: Done, Object: z1}),
		},
		Streams: []Stream{
			{Watcher: 1, Kind: Registers, From: 5, Events: events, Last: true},
			{Watcher: 2, Kind: Registers, From: 20, Events: slices.Clone(events[3:]), Last: true},
		},
		First: map[Kind]Revision{Registers: 5},
		Final: map[Kind]Revision{Registers: 80},
	}
}

// more adds an operation.
func more(at int, o Operation) func(*Report) {
	return func(r *Report) { r.Operations = append(r.Operations, op(at, o)) }
}

// told changes the events of the first watcher.
func told(change func([]Event) []Event) func(*Report) {
	return func(r *Report) { r.Streams[0].Events = change(r.Streams[0].Events) }
}

// unseen removes an event from all watchers.
func unseen(revision Revision) func(*Report) {
	return func(r *Report) {
		for i := range r.Streams {
			s := &r.Streams[i]
			s.Events = slices.DeleteFunc(s.Events, func(e Event) bool { return e.Object.Revision == revision })
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Report)
		want   string // part of the error; empty: none
	}{
		{"all is well", func(*Report) {}, ""},

		{"a stale read", more(50, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: Done, Object: a1}), "a stale answer"},
		{"a stale read of what is gone", more(72, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: Done, Object: a2}), "a stale answer"},
		{"not there yet", more(40, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: NotFound}), "porcupine finds no order"},
		{"a read while it is written", more(22, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: Done, Object: a1}), ""},
		{"a read of the past is seen by others", func(r *Report) {
			// The second one is called after the first one has returned.
			more(141, Operation{Verb: Get, Mode: Latest, Key: b, Outcome: Done, Object: b2})(r)
			more(152, Operation{Verb: Get, Mode: Latest, Key: b, Outcome: Done, Object: b1})(r)
		}, "a stale answer"},
		{"after an event was seen", more(151, Operation{Verb: Get, Mode: Latest, Key: b, Outcome: Done, Object: b1}), "a stale answer"},
		{"after a bookmark was seen", func(r *Report) {
			r.Streams[0].Events[2].Object.Revision = 29
			more(50, Operation{Verb: List, Mode: Latest, Key: Key{Kind: Registers}, Outcome: Done, Pages: []Page{{25, []Item{{"a", a2}}}}})(r)
		}, "a stale list"},
		{"a read of what was never there", more(40, Operation{Verb: Get, Mode: Any, Key: a, Outcome: Done, Object: Object{"u1", 21, "v2"}}), "never there"},
		{"any state will do", more(90, Operation{Verb: Get, Mode: Any, Key: a, Outcome: Done, Object: a1}), ""},
		{"any state, but of the future", more(8, Operation{Verb: Get, Mode: Any, Key: a, Outcome: Done, Object: a2}), "a write in the past"},
		{"not older", more(90, Operation{Verb: Get, Mode: NotOlder, At: 15, Key: a, Outcome: Done, Object: a1}), ""},
		{"older", more(90, Operation{Verb: Get, Mode: NotOlder, At: 20, Key: a, Outcome: Done, Object: a1}), "a stale answer"},

		{"a lost write", unseen(50), "an event is missing"},
		{"a lost deletion", unseen(30), "an acknowledged write is lost"},
		{"a deletion that comes back", more(90, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: Done, Object: a2}), "a stale answer"},
		{"a write that no watcher and no read has seen", more(90,
			Operation{Verb: Update, Key: a, Value: "v8", Outcome: Done, Object: Object{"u2", 45, "v8"}}), "an event is missing"},
		{"two win the same revision", more(20, Operation{Verb: Update, Key: a, Value: "v8", Revision: 10, Outcome: Done, Object: Object{"u1", 20, "v8"}}), "revision 20 is"},
		{"two win from one revision", func(r *Report) {
			won := Object{"u1", 22, "v8"}
			more(21, Operation{Verb: Update, Key: a, Value: "v8", Revision: 10, Outcome: Done, Object: won})(r)
			told(func(e []Event) []Event { return slices.Insert(e, 2, event(30, Modified, a, won)) })(r)
		}, "a precondition was ignored"},
		{"two delete the same", more(62, Operation{Verb: Delete, Key: a, Outcome: Done, Object: Object{UID: "u1"}}), "two writes have won"},
		{"two create the same", more(2, Operation{Verb: Create, Key: a, Value: "v8", Outcome: Done, Object: Object{"u8", 11, "v8"}}), "where there was"},
		{"a write happens twice", told(func(e []Event) []Event {
			return append(e, event(320, Added, b, Object{"u5", 90, "v4"}))
		}), "was written before"},
		{"a refused write happens", func(r *Report) { r.Operations[updateB].Outcome = Refused }, "a refused write has happened"},
		{"not written", func(r *Report) { r.Operations = slices.Delete(r.Operations, updateB, updateB+1) }, "which was not written"},
		{"not deleted", func(r *Report) { r.Operations = slices.Delete(r.Operations, deleteB, deleteB+1) }, "which was not deleted"},
		{"deleted before the request", func(r *Report) { r.Operations[deleteB].Call = 235 }, "which was not deleted"},
		{"deleted against the precondition", func(r *Report) { r.Operations[deleteB].Revision = 50 }, "which was not deleted"},
		{"one of many deletions", func(r *Report) {
			more(10, Operation{Verb: Delete, Key: b})(r)
			more(236, Operation{Verb: Delete, Key: b, UID: "u3"})(r)
		}, ""},
		{"a write before its request", func(r *Report) { r.Operations[updateB].Call = 155 }, "a write in the past"},
		{"a write in the past", func(r *Report) { r.Operations[createAgain].Call, r.Operations[createAgain].Return = 110, 112 }, "a write in the past"},
		{"a uid for two", func(r *Report) {
			r.Operations[createAgain].Object.UID = "u1"
			for i := range r.Streams {
				for n := range r.Streams[i].Events {
					if e := &r.Streams[i].Events[n]; e.Object.Revision == 40 {
						e.Object.UID = "u1"
					}
				}
			}
			r.Operations[listBoth].Pages[0].Items[0].Object.UID = "u1"
		}, "has the uid of"},

		{"a conflict", more(30, Operation{Verb: Update, Key: a, Revision: 10, Value: "v8", Outcome: Conflict}), ""},
		{"a conflict with nothing", more(30, Operation{Verb: Update, Key: a, Revision: 20, Value: "v8", Outcome: Conflict}), "a write in the past"},
		{"a conflict with the past", more(290, Operation{Verb: Update, Key: a, Revision: 40, Value: "v8", Outcome: Conflict}), "a stale answer"},
		{"exists", more(30, Operation{Verb: Create, Key: a, Value: "v8", Outcome: Exists}), ""},
		{"does not exist", more(290, Operation{Verb: Create, Key: b, Value: "v8", Outcome: Exists}), "a stale answer"},
		{"not found, but it is there", more(290, Operation{Verb: Delete, Key: a, Outcome: NotFound}), "a stale answer"},

		{"a list that lacks one", func(r *Report) { r.Operations[listBoth].Pages[1].Items = nil }, "a torn list"},
		{"a list with two pages of one time", func(r *Report) {
			r.Operations[listBoth].Pages = []Page{{50, []Item{{"a", a3}, {"b", b1}}}}
		}, ""},
		{"a list with pages of two times", func(r *Report) { r.Operations[listBoth].Pages[1].Revision = 60 }, "a torn list"},
		{"a page of another time", func(r *Report) { r.Operations[listBoth].Pages[1].Items[0].Object = b2 }, "a torn list"},
		{"an item twice", func(r *Report) {
			r.Operations[listBoth].Pages[1].Items = append(r.Operations[listBoth].Pages[1].Items, Item{"b", b1})
		}, "a torn list"},
		{"a list out of order", func(r *Report) { slices.Reverse(r.Operations[listBoth].Pages) }, "a torn list"},
		{"a stale list", more(170, Operation{Verb: List, Mode: Latest, Key: Key{Kind: Registers}, Outcome: Done,
			Pages: []Page{{50, []Item{{"a", a3}, {"b", b1}}}}}), "a stale list"},
		{"a list at a revision", more(170, Operation{Verb: List, Mode: Exact, At: 50, Key: Key{Kind: Registers}, Outcome: Done,
			Pages: []Page{{50, []Item{{"a", a3}, {"b", b1}}}}}), ""},
		{"a list at another revision", more(170, Operation{Verb: List, Mode: Exact, At: 49, Key: Key{Kind: Registers}, Outcome: Done,
			Pages: []Page{{50, []Item{{"a", a3}, {"b", b1}}}}}), "at a revision other than"},
		{"a list from before", more(170, Operation{Verb: List, Mode: NotOlder, At: 51, Key: Key{Kind: Registers}, Outcome: Done,
			Pages: []Page{{50, []Item{{"a", a3}, {"b", b1}}}}}), "at a revision other than"},
		{"a list of the future", func(r *Report) {
			r.Operations[listBoth].Pages = []Page{{65, []Item{{"a", a3}, {"b", b2}}}}
		}, "a write in the past"},

		{"an event is missing", told(func(e []Event) []Event { return slices.Delete(e, 5, 6) }), "an event is missing"},
		{"an event is missing before a bookmark", told(func(e []Event) []Event {
			return slices.Delete(slices.Insert(e, 7, Event{Type: Bookmark, Object: Object{Revision: 65}}), 6, 7)
		}), "an event is missing"},
		{"an event comes twice", told(func(e []Event) []Event { return slices.Insert(e, 5, e[4]) }), "an event is repeated"},
		{"an event comes again later", told(func(e []Event) []Event { return slices.Insert(e, 7, e[4]) }), "an event is repeated"},
		{"events change places", told(func(e []Event) []Event { e[4], e[5] = e[5], e[4]; return e }), "events are out of order"},
		{"an event after its bookmark", told(func(e []Event) []Event { e[1], e[2] = e[2], e[1]; return e }), "events are out of order"},
		{"a bookmark goes back", told(func(e []Event) []Event { e[2].Object.Revision = 15; return e }), "a bookmark goes back"},
		{"an event from before the beginning", func(r *Report) { r.Streams[0].From = 11 }, "from before the beginning"},
		{"an event of another type", told(func(e []Event) []Event { e[1].Type = Added; return e }), "revision 20 is"},
		{"an event with another value", told(func(e []Event) []Event { e[5].Object.Value = "v1"; return e }), "revision 50 is"},
		{"an event of a write that was not", told(func(e []Event) []Event {
			return slices.Insert(e, 5, event(90, Modified, a, Object{"u2", 45, "v8"}))
		}), "which was not written"},
		{"a deletion shows another value", func(r *Report) {
			for i := range r.Streams {
				for n := range r.Streams[i].Events {
					if e := &r.Streams[i].Events[n]; e.Object.Revision == 30 {
						e.Object.Value = "v1"
					}
				}
			}
		}, "shows another value"},
		{"a watcher stands still", told(func(e []Event) []Event { return e[:6] }), "has stopped at 50"},
		{"a watcher that was sent to list stands still", func(r *Report) {
			r.Streams[1].Events, r.Streams[1].Last = r.Streams[1].Events[:2], false
		}, ""},
		{"unwatched: a deletion", func(r *Report) {
			r.Streams[0].Events, r.Streams[0].Last = r.Streams[0].Events[:3], false
			r.Streams[1].From, r.Streams[1].Events = 35, r.Streams[1].Events[1:]
		}, "after 25 up to 35"},
		{"unwatched: an open write", func(r *Report) {
			r.Streams[0].Events, r.Streams[0].Last = r.Streams[0].Events[:6], false
			r.Streams[1].From, r.Streams[1].Events = 60, r.Streams[1].Events[4:]
		}, "after 50 up to 60"},
		{"unwatched: the end", func(r *Report) {
			r.Streams[0].Events, r.Streams[0].Last = r.Streams[0].Events[:7], false
			r.Streams = r.Streams[:1]
		}, "after 60 up to 80"},
		{"unwatched: what is known", func(r *Report) {
			r.Streams[0].Events, r.Streams[0].Last = r.Streams[0].Events[:4], false
			r.Streams[1].From, r.Streams[1].Events = 55, r.Streams[1].Events[3:]
			r.Operations = slices.Delete(r.Operations, lost, lost+1)
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := past()
			tc.change(r)
			err := Check(r)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestSearch checks that porcupine alone finds violations in the operations on one key.
func TestSearch(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Report)
		right  bool
	}{
		{"all is well", func(*Report) {}, true},
		{"a stale read", more(50, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: Done, Object: a1}), false},
		{"not found", more(50, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: NotFound}), false},
		{"a lost write", more(110, Operation{Verb: Get, Mode: Latest, Key: a, Outcome: NotFound}), false},
		{"two win from one revision", more(21, Operation{Verb: Update, Key: a, Value: "v8", Revision: 10, Outcome: Done, Object: Object{"u1", 22, "v8"}}), false},
		{"two delete the same", more(62, Operation{Verb: Delete, Key: a, Outcome: Done, Object: Object{UID: "u1"}}), false},
		{"two create the same", more(2, Operation{Verb: Create, Key: a, Value: "v8", Outcome: Done, Object: Object{"u8", 11, "v8"}}), false},
		{"a conflict with nothing", more(52, Operation{Verb: Delete, Key: a, Revision: 20, Outcome: Conflict}), false},
		{"exists, but does not", more(70, Operation{Verb: Create, Key: a, Value: "v8", Outcome: Exists}), false},
		{"revisions go back", func(r *Report) { r.Operations[createAgain].Object.Revision = 15 }, false},
		{"changed after the precondition", func(r *Report) { r.Operations[updateA].Revision = 9 }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := past()
			tc.change(r)
			ops := slices.DeleteFunc(r.Operations, func(o Operation) bool { return o.Key == b })
			if err := (&ledger{}).search(ops, time.Minute); (err == nil) != tc.right {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestGaps checks that a missed part of a stream is a gap, unless it is after the last write.
func TestGaps(t *testing.T) {
	r := &Report{First: map[Kind]Revision{Registers: 10}, Final: map[Kind]Revision{Registers: 90}, Streams: []Stream{
		{Kind: Registers, From: 10, Events: []Event{event(0, Added, a, Object{"u", 20, "v"})}},
		{Kind: Registers, From: 30, Events: []Event{event(0, Added, b, Object{"u", 90, "v"})}},
		{Kind: Registers, From: 91},
		{Kind: ConfigMaps, From: 20},
	}}
	if got := gaps(r, Registers); !slices.Equal(got, []span{{20, 30}}) {
		t.Error(got)
	}
}
