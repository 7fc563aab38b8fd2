package linear

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
)

// TestLies falsifies the history of a real server, in one place at a time.
func TestLies(t *testing.T) {
	server := start(t, kapok.Options{})
	defer server.Stop()
	e := &Endpoint{Name: "memory"}
	if err := e.Serve(server.Config()); err != nil {
		t.Fatal(err)
	}
	truth := Run(t, Config{Endpoints: []*Endpoint{e}, Duration: time.Millisecond, Operations: 2000, Clients: 4})
	if err := Check(truth); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(truth.Seed, 1))

	// operation returns an operation that satisfies a predicate.
	operation := func(r *Report, is func(*Operation) bool) *Operation {
		var all []*Operation
		for i := range r.Operations {
			if is(&r.Operations[i]) {
				all = append(all, &r.Operations[i])
			}
		}
		if len(all) == 0 {
			t.Fatal("there is no such operation")
		}
		return all[random.IntN(len(all))]
	}
	// stream returns a stream, and the index of an event that has another one before and after it.
	stream := func(r *Report) (*Stream, int) {
		var all []*Stream
		for i := range r.Streams {
			if len(r.Streams[i].Events) > 2 {
				all = append(all, &r.Streams[i])
			}
		}
		s := all[random.IntN(len(all))]
		return s, 1 + random.IntN(len(s.Events)-2)
	}
	done := func(v Verb) func(*Operation) bool {
		return func(o *Operation) bool { return o.Verb == v && o.Outcome == Done }
	}
	for name, falsify := range map[string]func(*Report){
		"a stale read": func(r *Report) {
			// This read returns a state from before a write that had returned before the call.
			o := operation(r, func(o *Operation) bool { return done(Get)(o) && o.Mode == Latest && before(r, o) != nil })
			o.Object = before(r, o).Object
		},
		"a lost write": func(r *Report) {
			o := operation(r, done(Update))
			for i := range r.Streams {
				r.Streams[i].Events = slices.DeleteFunc(r.Streams[i].Events, func(e Event) bool { return e.Object == o.Object })
			}
		},
		"a second winner": func(r *Report) {
			o := operation(r, func(o *Operation) bool { return o.Verb == Update && o.Outcome == Conflict && o.Revision != 0 })
			winner := operation(r, func(w *Operation) bool { return done(Update)(w) && w != o })
			o.Outcome, o.Object = Done, winner.Object
		},
		"a second deletion": func(r *Report) {
			o := operation(r, done(Delete))
			r.Operations = append(r.Operations, *o)
		},
		"a missed event": func(r *Report) {
			s, i := stream(r)
			s.Events = slices.Delete(s.Events, i, i+1)
		},
		"a repeated event": func(r *Report) {
			s, i := stream(r)
			s.Events = slices.Insert(s.Events, i, s.Events[i])
		},
		"reordered events": func(r *Report) {
			s, i := stream(r)
			s.Events[i], s.Events[i+1] = s.Events[i+1], s.Events[i]
		},
		"a torn list": func(r *Report) {
			o := operation(r, func(o *Operation) bool { return done(List)(o) && len(o.Pages) > 1 })
			o.Pages[len(o.Pages)-1].Revision++
		},
		"a list that lacks one": func(r *Report) {
			o := operation(r, func(o *Operation) bool { return done(List)(o) && len(o.Pages[0].Items) > 0 })
			o.Pages[0].Items = o.Pages[0].Items[1:]
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				r := duplicate(truth)
				falsify(r)
				if Check(r) == nil {
					t.Fatal("it was not found")
				}
			}
		})
	}
	if err := Check(truth); err != nil {
		t.Errorf("the truth has changed: %v", err)
	}
}

// before returns a write of the object that an operation has read, which was followed by another
// one that had returned before the call.
func before(r *Report, o *Operation) *Operation {
	wrote := func(w *Operation) bool {
		return w.writes() && w.Verb != Delete && w.Outcome == Done && w.Key == o.Key && w.Return < o.Call
	}
	for i := range r.Operations {
		old := &r.Operations[i]
		if wrote(old) && slices.ContainsFunc(r.Operations, func(w Operation) bool {
			return wrote(&w) && w.Object.Revision > old.Object.Revision
		}) {
			return old
		}
	}
	return nil
}

func duplicate(r *Report) *Report {
	d := *r
	d.Operations = slices.Clone(r.Operations)
	for i := range d.Operations {
		d.Operations[i].Pages = slices.Clone(d.Operations[i].Pages)
	}
	d.Streams = slices.Clone(r.Streams)
	for i := range d.Streams {
		d.Streams[i].Events = slices.Clone(d.Streams[i].Events)
	}
	return &d
}

// TestLiars puts a proxy between the clients and a correct server, which rarely changes a response.
func TestLiars(t *testing.T) {
	for name, tc := range map[string]struct {
		liar func(*liar, *http.Request) (*http.Response, error)
		want string
	}{
		"a cache":                {(*liar).remember, "stale"},
		"a watch with holes":     {(*liar).forget, "an event is missing"},
		"success without a deed": {(*liar).pretend, "an acknowledged write is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, kapok.Options{})
			defer server.Stop()
			config := server.Config()
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return &liar{next: next, lie: tc.liar, answers: map[string][]byte{}}
			})
			e := &Endpoint{Name: name}
			if err := e.Serve(config); err != nil {
				t.Fatal(err)
			}
			report := Run(t, Config{Endpoints: []*Endpoint{e}, Duration: time.Millisecond, Operations: 2000, Clients: 4})
			if err := Check(report); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A liar changes some responses.
type liar struct {
	next http.RoundTripper
	lie  func(*liar, *http.Request) (*http.Response, error)

	mu      sync.Mutex
	count   int
	answers map[string][]byte
}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) { return l.lie(l, r) }

// now reports whether to change the next response.
func (l *liar) now() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.count%20 == 0
}

// remember repeats earlier responses to reads of an object.
func (l *liar) remember(r *http.Request) (*http.Response, error) {
	path := r.URL.Path
	if r.Method != http.MethodGet || r.URL.RawQuery != "" || strings.Count(path, "/r") == 0 {
		return l.next.RoundTrip(r)
	}
	lie := l.now()
	l.mu.Lock()
	old := l.answers[path]
	l.mu.Unlock()
	if lie && old != nil {
		return answer(r, old), nil
	}
	resp, err := l.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || old != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	l.mu.Lock()
	l.answers[path] = body
	l.mu.Unlock()
	return answer(r, body), nil
}

// forget drops some events of watches, except for the last one, which all watchers wait for.
func (l *liar) forget(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return resp, err
	}
	body := resp.Body
	in, out := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if last := bytes.Contains(lines.Bytes(), []byte("final-")); !last && l.now() {
				continue
			}
			if _, err := out.Write(append(lines.Bytes(), '\n')); err != nil {
				return
			}
		}
		out.CloseWithError(io.EOF)
	}()
	resp.Body = in
	return resp, nil
}

// pretend responds to some deletes without forwarding them.
func (l *liar) pretend(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodDelete || !l.now() {
		return l.next.RoundTrip(r)
	}
	return answer(r, []byte(`{"kind":"Status","status":"Success","details":{"uid":"none"}}`)), nil
}

func answer(r *http.Request, body []byte) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}
