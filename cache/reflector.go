package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	firstDelay = 800 * time.Millisecond // of client-go's reflector, as are the next two
	maxDelay   = 30 * time.Second
	calm       = 2 * time.Minute // after which the delay is the first again
	// missingDelay is the greatest delay while the server does not have the kind, which may come any time.
	missingDelay = 5 * time.Second
	// shortWatch is a watch that may not be followed by the next at once.
	shortWatch = time.Second
	// A watch lasts between minWatch and twice that, and is given up graceTime later if the server does not end it.
	minWatch  = 5 * time.Minute
	graceTime = 30 * time.Second
	// silence is how long a streaming list may add nothing before it is taken for a plain watch of a server that has none.
	silence  = 30 * time.Second
	pageSize = 500
)

// errNoStreaming says that the server has no streaming lists.
var errNoStreaming = errors.New("the server does not stream lists")

// A reflector tells a queue of all that happens to the objects of a kind, or to some of them: it lists them and watches them from there. A
// connection that breaks is taken up where it was. What happened while that was impossible, as the server has forgotten it, is seen in
// another list.
type reflector struct {
	client   *http.Client
	url      func() (*url.URL, error) // of the resource
	selector url.Values               // labelSelector, fieldSelector
	kind     *kind
	media    string
	agent    string // User-Agent; "": the default
	source   int
	queue    *deltaQueue
	known    iter.Seq[*entry] // what the store has of what this reflector tells
	failed   func(error)      // hears of what goes wrong
	log      *slog.Logger

	revision  string // up to which everything was told
	listed    bool   // there was a list
	stale     bool   // what comes next must be a list
	anyList   bool   // and the newest, as the server has no longer, or not yet, what was told
	noStreams bool
	fails     int
	lastFail  time.Time
}

// run returns when the context ends.
func (r *reflector) run(ctx context.Context) {
	r.stale = true
	for {
		begin := time.Now()
		told, err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		// A connection that has lasted is taken up at once, and so is one that ended in order after it told something.
		answered := errors.As(err, new(apierrors.APIStatus))
		lasted := time.Since(begin) >= shortWatch
		if lasted && (!answered || isExpired(err)) && r.listed || told && err == nil {
			r.log.Debug("A watch has ended", "error", err)
			continue
		}
		delay := r.delay(err)
		if err != nil {
			r.failed(err)
			r.log.Warn("Failed to watch", "error", err, "retryAfter", delay)
		}
		sleep(ctx, delay)
	}
}

// delay grows with each failure. The server may ask for more.
func (r *reflector) delay(err error) time.Duration {
	if time.Since(r.lastFail) > calm {
		r.fails = 0
	}
	r.lastFail = time.Now()
	longest := maxDelay
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		longest = missingDelay
	}
	d := min(firstDelay<<min(r.fails, 10), longest)
	r.fails++
	d += rand.N(d)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second+rand.N(time.Second))
	}
	return d
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// isExpired says that the server has forgotten what is asked for, or does not know it yet.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// follow lists, if it must, and watches. It returns when the watch ends: with nil if that was in order. told says that there was an event.
func (r *reflector) follow(ctx context.Context) (told bool, err error) {
	told, err = r.listAndWatch(ctx)
	switch {
	case isExpired(err):
		r.anyList = r.stale // a list that is not old enough for the server must not ask for that again
		r.stale = true
	case apierrors.IsNotFound(err):
		r.stale = true // the kind is gone, or not there yet
	case errors.Is(err, errTooLarge):
		r.stale, r.noStreams = true, true // a list may be as large as it likes
	}
	return told, err
}

func (r *reflector) listAndWatch(ctx context.Context) (told bool, err error) {
	if r.stale && !r.noStreams {
		told, err := r.stream(ctx)
		if !errors.Is(err, errNoStreaming) {
			return told, err
		}
		r.log.Debug("Listing in pages", "reason", err)
		r.noStreams = true
	}
	if r.stale {
		if err := r.list(ctx); err != nil {
			return false, fmt.Errorf("list: %w", err)
		}
	}
	w, err := r.open(ctx, url.Values{"resourceVersion": {r.revision}})
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	defer w.close()
	return r.watch(w)
}

// stream is a streaming list, which is a watch that begins with all objects (KEP-3157).
func (r *reflector) stream(ctx context.Context) (told bool, err error) {
	revision := r.revision
	if r.anyList {
		revision = ""
	}
	w, err := r.open(ctx, url.Values{
		"sendInitialEvents":    {"true"},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)},
		"resourceVersion":      {revision},
	})
	if err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
			return false, fmt.Errorf("%w: %w", errNoStreaming, err)
		}
		return false, fmt.Errorf("streaming list: %w", err)
	}
	defer w.close()
	silent := time.AfterFunc(silence, w.close)
	defer silent.Stop()
	list := map[types.NamespacedName]*entry{}
	var order []*entry
	for {
		f, err := w.next()
		if err != nil {
			if !silent.Stop() {
				return false, fmt.Errorf("%w: it was silent for %s", errNoStreaming, silence)
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return false, fmt.Errorf("streaming list: %w", err)
		}
		switch f.event {
		case "ERROR":
			return false, fmt.Errorf("streaming list: %w", f.object.statusError())
		case "BOOKMARK":
			revision, end, err := f.object.bookmark()
			if err != nil {
				return false, fmt.Errorf("streaming list: %w", err)
			}
			if !end {
				continue
			}
			if !silent.Stop() {
				return false, fmt.Errorf("%w: it was silent for %s", errNoStreaming, silence)
			}
			if len(list) != len(order) {
				order = nil
				for _, e := range list {
					order = append(order, e)
				}
			}
			r.replace(order, revision)
			list, order = nil, nil
			return r.watch(w)
		}
		e, err := r.kind.newEntry(f.object)
		if err != nil {
			return false, fmt.Errorf("streaming list: %w", err)
		}
		switch f.event {
		case "DELETED":
			delete(list, e.key())
			continue
		case "ADDED":
			silent.Reset(silence) // other events are no sign that the list goes on
		}
		list[e.key()] = e
		order = append(order, e)
	}
}

// list reads all objects, in pages where the server has them.
func (r *reflector) list(ctx context.Context) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	switch {
	case r.anyList:
	case r.revision == "":
		query.Set("resourceVersion", "0") // what the server has at hand
	default:
		query.Set("resourceVersion", r.revision)
		query.Del("limit") // a limit makes it read the newest
	}
	media := strings.ReplaceAll(r.media, "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
	var entries []*entry
	var revision string
	for {
		resp, err := r.do(ctx, query, media)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return err
		}
		page, err := splitList(body)
		if err != nil {
			return err
		}
		for _, o := range page.items {
			e, err := r.kind.newEntry(o)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		revision = page.revision
		if page.token == "" {
			break
		}
		query = url.Values{"limit": query["limit"], "continue": {page.token}}
	}
	if revision == "" {
		return errors.New("a list without resourceVersion")
	}
	r.replace(entries, revision)
	return nil
}

func (r *reflector) replace(list []*entry, revision string) {
	r.queue.replace(list, r.source, revision, !r.listed, r.known)
	r.revision, r.listed, r.stale, r.anyList = revision, true, false, false
}

// watch tells of changes until the stream ends. told says that there was any.
func (r *reflector) watch(w *stream) (told bool, err error) {
	for {
		f, err := w.next()
		if errors.Is(err, io.EOF) {
			return told, nil
		}
		if err != nil {
			return told, fmt.Errorf("watch: %w", err)
		}
		var kind deltaType
		switch f.event {
		case "ERROR":
			return told, fmt.Errorf("watch: %w", f.object.statusError())
		case "BOOKMARK":
			revision, _, err := f.object.bookmark()
			if err != nil {
				return told, fmt.Errorf("watch: %w", err)
			}
			r.revision = revision
			r.queue.advance(r.source, revision)
			continue
		case "ADDED":
			kind = added
		case "MODIFIED":
			kind = updated
		case "DELETED":
			kind = deleted
		default:
			return told, fmt.Errorf("watch: event %q is unknown", f.event)
		}
		e, err := r.kind.newEntry(f.object)
		if err != nil {
			return told, fmt.Errorf("watch: %w", err)
		}
		if e.revision == "" {
			return told, errors.New("watch: an object without resourceVersion")
		}
		told = told || e.revision != r.revision // else it would be told without end
		r.revision = e.revision
		r.queue.add(delta{deltaType: kind, entry: e, source: r.source}, e.revision)
	}
}
