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
	// missingDelay is the longest delay while the server does not have the kind.
	missingDelay = 5 * time.Second
	// shortWatch is the duration below which a watch is not followed by the next one without a
	// delay.
	shortWatch = time.Second
	// A watch lasts between minWatch and twice that. It is canceled graceTime later if the server
	// does not end it.
	minWatch  = 5 * time.Minute
	graceTime = 30 * time.Second
	// silence is the time without an event after which the reflector takes a streaming list for the
	// plain watch of a server without streaming lists.
	silence  = 30 * time.Second
	pageSize = 500
)

// errNoStreaming is the error of a server without streaming lists.
var errNoStreaming = errors.New("the server does not stream lists")

// A reflector reports all changes of the objects of a kind, or of a part of them, to a queue: it
// lists them and watches from there. A broken connection is resumed. Changes that the server has
// dropped from its history are found by another list.
type reflector struct {
	client   *http.Client
	url      func() (*url.URL, error) // of the resource
	selector url.Values               // labelSelector, fieldSelector
	kind     *kind
	media    string
	agent    string // User-Agent; "": the default
	source   int
	queue    *deltaQueue
	known    iter.Seq[*entry] // the objects of this reflector in the store
	failed   func(error)      // called with each error
	log      *slog.Logger

	revision  string // up to which all changes are reported
	listed    bool   // there was a list
	stale     bool   // the next request must be a list
	anyList   bool   // and the newest one, as the server has dropped, or does not have yet, the reported revision
	noStreams bool
	backoff
}

// A backoff is the delay between attempts that fail.
type backoff struct {
	fails    int
	lastFail time.Time
}

// run returns when ctx ends.
func (r *reflector) run(ctx context.Context) {
	r.stale = true
	for {
		begin := time.Now()
		told, err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		// A long connection is resumed at once, and so is one that ended without an error after an
		// event.
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

// delay grows with each failure. Retry-After of the server has precedence.
func (b *backoff) delay(err error) time.Duration {
	if time.Since(b.lastFail) > calm {
		b.fails = 0
	}
	b.lastFail = time.Now()
	longest := maxDelay
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		longest = missingDelay
	}
	d := min(firstDelay<<min(b.fails, 10), longest)
	b.fails++
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

// isExpired reports whether the server has dropped the requested revision, or does not have it yet.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// follow lists if necessary, and watches. It returns when the watch ends: nil if that was regular.
// told reports whether there was an event.
func (r *reflector) follow(ctx context.Context) (told bool, err error) {
	told, err = r.listAndWatch(ctx)
	switch {
	case isExpired(err):
		r.anyList = r.stale // the list must not request the same revision again
		r.stale = true
	case apierrors.IsNotFound(err):
		r.stale = true // the kind is gone, or not there yet
	case errors.Is(err, errTooLarge):
		r.stale, r.noStreams = true, true // the size of a list has no limit
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

// stream reads a streaming list: a watch that begins with all objects (KEP-3157).
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
				return false, fmt.Errorf("%w: no event for %s", errNoStreaming, silence)
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
				return false, fmt.Errorf("%w: no event for %s", errNoStreaming, silence)
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

// list reads all objects, in pages if the server supports them.
func (r *reflector) list(ctx context.Context) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	switch {
	case r.anyList:
	case r.revision == "":
		query.Set("resourceVersion", "0") // from the server's cache
	default:
		query.Set("resourceVersion", r.revision)
		query.Del("limit") // a limit would force a consistent read
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

// watch reports changes until the stream ends. told reports whether there was any.
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
		told = told || e.revision != r.revision // otherwise the caller would retry without a delay
		r.revision = e.revision
		r.queue.add(delta{deltaType: kind, entry: e, source: r.source}, e.revision)
	}
}
