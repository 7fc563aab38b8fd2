package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A fanOut is a sequence of numbered changes, their writers and their watchers. The replicas of an
// object are the number of the change.
type fanOut struct {
	first    int         // replicas of the first change
	due      []time.Time // scheduled time of each change
	answered []time.Time // time of the response to each change
	seen     atomic.Int64

	watchers []watcher
}

// A watcher is a watch with its own connection. Its goroutine owns it until the watch has ended.
type watcher struct {
	client *client
	events io.ReadCloser
	seen   []arrival
	err    error // why the watch ended
}

type arrival struct {
	change int
	at     time.Time
}

// straggling bounds the time from the last change to the last event.
const straggling = 30 * time.Second

// watch changes objects at a steady rate while many clients watch them.
func (r *run) watch(ctx context.Context) (_ []Measure, err error) {
	changes := max(1, int(r.load.duration.Seconds()*float64(r.load.ChangesPerSecond)))
	f := &fanOut{due: make([]time.Time, changes), answered: make([]time.Time, changes), watchers: make([]watcher, r.load.Watchers)}
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer func() {
		stop()
		group.Wait()
		for _, w := range f.watchers {
			if w.client != nil {
				w.client.close()
			}
		}
	}()
	revision, err := r.revision(ctx)
	if err != nil {
		return nil, err
	}
	for i := range f.watchers {
		if err := f.watchers[i].open(watching, r, revision); err != nil {
			return nil, fmt.Errorf("watcher %d of %d: %w", i+1, len(f.watchers), err)
		}
	}
	f.first = r.replicas() + 1
	r.changes.Add(int64(changes))
	ended := make(chan struct{}, len(f.watchers))
	for i := range f.watchers {
		group.Go(func() {
			f.follow(&f.watchers[i])
			ended <- struct{}{}
		})
	}

	before, err := r.processes.use()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := f.write(ctx, r); err != nil {
		return nil, err
	}
	elapsed := time.Since(begin)
	f.await(ctx, ended)
	after, err := r.processes.use()
	if err != nil {
		return nil, err
	}
	stop()
	group.Wait()
	sinceDue, sinceAnswer, err := f.delays()
	if err != nil {
		return nil, err
	}

	title := fmt.Sprintf("watch, %d watchers, %d changes/s", r.load.Watchers, r.load.ChangesPerSecond)
	due, answer := newMeasure(sinceDue, elapsed), newMeasure(sinceAnswer, elapsed)
	due.Name, due.Title = "watch-due", title+": event since due"
	answer.Name, answer.Title = "watch-answer", "the same: event since answer"
	due.writes = true
	due.CPUUs = microseconds(after.cpu-before.cpu) / float64(changes*len(f.watchers))
	return []Measure{due, answer}, nil
}

// revision returns the present resourceVersion of the objects.
func (r *run) revision(ctx context.Context) (string, error) {
	var list metav1.PartialObjectMetadataList
	err := r.shared.get(ctx, r.objects+"?limit=1", &list)
	return list.ResourceVersion, err
}

// open starts a watch from a revision.
func (w *watcher) open(ctx context.Context, r *run, revision string) (err error) {
	if w.client, err = r.dialler.client(); err != nil {
		return err
	}
	answer, err := w.client.send(ctx, request{method: "GET", path: r.objects + "?watch=true&resourceVersion=" + revision})
	if err == nil {
		w.events = answer.Body
	}
	return err
}

// follow reads events until the watch ends.
func (f *fanOut) follow(w *watcher) {
	defer w.events.Close()
	w.seen = make([]arrival, 0, len(f.due))
	for lines := bufio.NewReaderSize(w.events, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			w.err = err
			return
		}
		now := time.Now()
		if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
			w.err = fmt.Errorf("the watch sent %s", line)
			return
		}
		if change := replicasIn(line) - f.first; change >= 0 && change < len(f.due) {
			w.seen = append(w.seen, arrival{change, now})
			f.seen.Add(1)
		}
	}
}

// replicasIn returns the replicas of the object in a line; -1 if it has none.
func replicasIn(line []byte) int {
	_, rest, found := bytes.Cut(line, []byte(`"replicas":`))
	if !found {
		return -1
	}
	end := bytes.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	n, err := strconv.Atoi(string(rest[:max(end, 0)]))
	if err != nil {
		return -1
	}
	return n
}

// write sends the changes at their scheduled times: a late change does not delay the next.
func (f *fanOut) write(ctx context.Context, r *run) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group sync.WaitGroup
	every := time.Second / time.Duration(r.load.ChangesPerSecond)
	begin, shown := time.Now(), time.Now()
	for n := range f.due {
		f.due[n] = begin.Add(time.Duration(n) * every)
		select {
		case <-time.After(time.Until(f.due[n])):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, f.first+n)
			err := r.shared.do(ctx, request{method: "PATCH", path: r.objects + "/" + r.name(n), contentType: asMerge, body: body})
			if err != nil {
				stop(err)
			}
			f.answered[n] = time.Now()
		})
		if time.Since(shown) > 250*time.Millisecond {
			shown = time.Now()
			r.advance(float64(n) / float64(len(f.due)))
		}
	}
	group.Wait()
	return context.Cause(ctx)
}

// await waits until all watchers have seen all changes, a watch has ended, or straggling is over.
func (f *fanOut) await(ctx context.Context, ended <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, straggling)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.seen.Load() < int64(len(f.due)*len(f.watchers)) {
		select {
		case <-tick.C:
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// delays returns the times until watchers had read events, since the scheduled time and since the
// response.
func (f *fanOut) delays() (sinceDue, sinceAnswer durations, err error) {
	for i, w := range f.watchers {
		if w.err != nil && !errors.Is(w.err, context.Canceled) {
			return nil, nil, fmt.Errorf("the watch of watcher %d of %d ended after %d of %d changes: %w", i+1, len(f.watchers), len(w.seen), len(f.due), w.err)
		}
	}
	for i, w := range f.watchers {
		if len(w.seen) != len(f.due) {
			return nil, nil, fmt.Errorf("watcher %d of %d received %d of %d changes", i+1, len(f.watchers), len(w.seen), len(f.due))
		}
		for _, s := range w.seen {
			sinceDue = append(sinceDue, s.at.Sub(f.due[s.change]))
			sinceAnswer = append(sinceAnswer, max(0, s.at.Sub(f.answered[s.change]))) // an event can arrive before the response
		}
	}
	return sinceDue, sinceAnswer, nil
}
