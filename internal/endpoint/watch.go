package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// Clients that allow bookmarks get one every bookmarkEvery, and the last one bookmarkBeforeEnd
	// before the watch ends.
	bookmarkEvery     = time.Minute
	bookmarkBeforeEnd = 2 * time.Second
	// manyEvents is the number of events from which on a watch waits for its turn to encode them.
	manyEvents = 16
)

// watch serves the verb watch: a stream of events that ends with the client, the server or the
// resource.
func (c *call) watch() error {
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	options, err := c.listOptions()
	if err != nil {
		return err
	}
	if c.h.isEnding() {
		// If the stream ended at once, informers would list again; a 429 makes them wait.
		return apierrors.NewTooManyRequests("the server is shutting down", 1)
	}
	s := &stream{c: c, m: m, bookmarks: options.AllowWatchBookmarks}
	if m.as.Kind == "Table" {
		tableOptions, err := c.tableOptions()
		if err != nil {
			return err
		}
		s.table = c.table(m, tableOptions)
	}
	if m.encoding == asYAML {
		return notAcceptable("only the following media types are accepted: " + mediaStreams[0] + ", " + mediaStreams[1])
	}
	s.m.pretty = false
	s.lasts = c.h.requests.watchTime()
	if t := options.TimeoutSeconds; t != nil && *t != 0 {
		s.lasts = time.Duration(*t) * time.Second
	}
	forget, err := c.h.limiter.Watch(c.attributes())
	if err != nil {
		return err
	}
	defer forget()
	if m.encoding == asProtobuf && m.as.Kind == "" {
		defer c.h.watchInProtobuf(c.definition)()
	}
	s.watch, err = c.h.store.Watch(c.r.Context(), c.request(), resource.WatchOptions{
		Labels:            options.LabelSelector,
		Fields:            options.FieldSelector,
		ResourceVersion:   options.ResourceVersion,
		SendInitialEvents: options.SendInitialEvents,
		Bookmarks:         options.AllowWatchBookmarks,
	})
	switch {
	case err == nil && c.r.Method == http.MethodHead:
		s.begin() // an empty stream
	case err == nil:
		s.serve()
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		s.serveError(err) // an expired revision is an event in the stream
	default:
		return err
	}
	return nil
}

// watchInProtobuf counts a watch that sends objects in protobuf, until the returned function is
// called.
func (h *Handler) watchInProtobuf(d *resource.Definition) (end func()) {
	n, _ := h.protobuf.LoadOrStore(d, new(atomic.Int64))
	watches := n.(*atomic.Int64)
	watches.Add(1)
	return func() { watches.Add(-1) }
}

// watchedInProtobuf reports whether a watch sends the objects of a resource in protobuf.
func (h *Handler) watchedInProtobuf(d *resource.Definition) bool {
	n, ok := h.protobuf.Load(d)
	return ok && n.(*atomic.Int64).Load() > 0
}

// stream is a watch under way. It belongs to the goroutine of its request.
type stream struct {
	c         *call
	m         media
	watch     *resource.Watch
	table     *table // nil unless events are Tables
	bookmarks bool
	lasts     time.Duration
	told      prometheus.Counter
	sizes     prometheus.Observer

	buf     []byte
	scratch []byte
}

func (s *stream) begin() {
	contentType := s.m.contentType()
	if s.m.encoding == asProtobuf {
		contentType = mediaStreams[1]
	}
	s.c.w.Header().Set("Content-Type", contentType)
	s.c.w.WriteHeader(http.StatusOK)
	s.c.w.Flush()
}

func (s *stream) serveError(err error) {
	s.begin()
	s.fail(err)
}

func (s *stream) serve() {
	c := s.c
	leave := c.h.metrics.watching(c)
	defer leave()
	c.h.watching.Add(1)
	defer c.h.watching.Add(-1)
	s.told = c.h.metrics.events.WithLabelValues(c.info.Group, c.info.Version, c.info.Resource)
	s.sizes = c.h.metrics.eventSizes.WithLabelValues(c.info.Group, c.info.Version, c.info.Resource)
	s.begin()

	ctx, cancel := context.WithTimeout(c.r.Context(), s.lasts)
	defer cancel()
	started := time.Now()
	bookmark := time.NewTimer(s.nextBookmark(started))
	defer bookmark.Stop()

	retired := c.definition.Retired()
	last := false // the resource was deleted, or has another definition
	for ctx.Err() == nil {
		select {
		case <-c.h.ending:
			c.h.await(ctx)
			return
		default:
		}
		events, wait, err := s.watch.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return
		}
		// Remaining events of a deleted resource precede the deletion. With another definition they
		// may be later, and are left to the next watch.
		if c.h.store.Registry().Load().Replaced(c.definition) {
			return
		}
		if len(events) > 0 {
			if !s.tell(events) {
				return
			}
			continue
		}
		if last {
			return
		}
		c.pass.Leave() // initial events are sent: from now on the watch is idle
		select {
		case <-wait:
		case <-ctx.Done():
		case <-c.h.ending:
		case <-retired:
			last, retired = true, nil
		case <-bookmark.C:
			if !s.bookmark() {
				return
			}
			bookmark.Reset(s.nextBookmark(started))
		}
	}
}

// nextBookmark returns the time until a bookmark is due.
func (s *stream) nextBookmark(started time.Time) time.Duration {
	left := s.lasts - time.Since(started) - bookmarkBeforeEnd
	if left > 0 && left < bookmarkEvery {
		return left
	}
	return bookmarkEvery
}

// tell sends events. It returns false if the stream has ended.
func (s *stream) tell(events []resource.WatchEvent) bool {
	if s.m.as.Kind == "PartialObjectMetadataList" {
		return false // an event is not a list: Kubernetes also ends the stream without an error
	}
	if s.table != nil {
		s.table.now = time.Now()
	}
	for left := events; len(left) > 0; {
		n, err := s.fill(left)
		if err != nil {
			s.fail(err)
			return false
		}
		if left = left[n:]; len(s.buf) >= spillAbove && !s.send() {
			return false
		}
	}
	s.told.Add(float64(len(events)))
	return s.flush()
}

// fill encodes events up to spillAbove bytes, and returns their number. Those of a watch that
// begins are encoded in turn, because hundreds of watches can begin at a time.
func (s *stream) fill(events []resource.WatchEvent) (n int, err error) {
	if len(events) >= manyEvents {
		s.c.h.encoders.Take()
		defer s.c.h.encoders.Give()
	}
	for n < len(events) && len(s.buf) < spillAbove {
		before := len(s.buf)
		if err := s.append(&events[n]); err != nil {
			return n, err
		}
		s.sizes.Observe(float64(len(s.buf) - before))
		n++
	}
	return n, nil
}

// bookmark sends the remaining events and a bookmark with the revision that the watch has reached.
func (s *stream) bookmark() bool {
	if !s.bookmarks {
		return true
	}
	events, _, err := s.watch.Next(s.c.r.Context())
	if err != nil {
		s.fail(err)
		return false
	}
	if s.c.h.store.Registry().Load().Replaced(s.c.definition) {
		return false
	}
	mark := resource.WatchEvent{Type: watch.Bookmark, Revision: s.watch.Revision()}
	return s.tell(append(events, mark))
}

// send writes the collected events; flush forces them out.
func (s *stream) send() bool {
	s.c.keeps = int64(cap(s.buf))
	_, err := s.c.w.Write(s.buf)
	s.c.leaveUnread()
	s.buf = s.buf[:0]
	if cap(s.buf) > keepBelow {
		s.buf = nil
	}
	return err == nil
}

func (s *stream) flush() bool {
	ok := s.send()
	s.c.w.Flush()
	s.c.leaveUnread()
	if cap(s.buf) > 16<<10 { // most watches are idle most of the time
		s.buf, s.scratch = nil, nil
	}
	return ok
}

// fail ends the stream with an ERROR event, unless that would make clients list again without need.
func (s *stream) fail(err error) {
	if errors.Is(err, resource.ErrEnds) {
		return
	}
	status := s.c.statusOf(err)
	encoded, err := appendTyped(nil, s.m.encoding, status, "v1", "Status")
	if err != nil {
		return
	}
	s.appendFrame(watch.Error, encoded)
	s.flush()
}

// append encodes an event.
func (s *stream) append(e *resource.WatchEvent) (err error) {
	if s.m.encoding == asProtobuf {
		if s.scratch, err = s.appendObject(s.scratch[:0], e); err == nil {
			s.buf = appendEventFrame(s.buf, string(e.Type), s.scratch)
		}
		return err
	}
	begin := len(s.buf)
	s.buf = append(s.buf, `{"type":"`...)
	s.buf = append(s.buf, e.Type...)
	s.buf = append(s.buf, `","object":`...)
	if s.buf, err = s.appendObject(s.buf, e); err != nil {
		s.buf = s.buf[:begin]
		return err
	}
	s.buf = append(s.buf, "}\n"...)
	return nil
}

func (s *stream) appendFrame(eventType watch.EventType, encoded []byte) {
	if s.m.encoding == asProtobuf {
		s.buf = appendEventFrame(s.buf, string(eventType), encoded)
		return
	}
	s.buf = append(s.buf, `{"type":"`...)
	s.buf = append(s.buf, eventType...)
	s.buf = append(s.buf, `","object":`...)
	s.buf = append(s.buf, encoded...)
	s.buf = append(s.buf, "}\n"...)
}

func (s *stream) appendObject(dst []byte, e *resource.WatchEvent) ([]byte, error) {
	switch {
	case e.Object == nil:
		return s.appendBookmark(dst, e)
	case s.table != nil:
		return s.table.appendOne(dst, e.Object, e.Revision)
	}
	return s.c.appendObject(dst, s.m, e.Object, e.Revision)
}

// appendBookmark encodes an object of the watched kind that has only a resourceVersion, and the
// annotation for the end of the initial events.
func (s *stream) appendBookmark(dst []byte, e *resource.WatchEvent) ([]byte, error) {
	meta := metav1.ObjectMeta{ResourceVersion: e.Revision.String()}
	if e.InitialEventsEnd {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	c := s.c
	apiVersion, kind := c.definition.APIVersion(c.version), c.definition.Kind
	switch {
	case s.table != nil:
		metadata, err := json.Marshal(&meta)
		if err != nil {
			return dst, err
		}
		return s.table.appendBookmark(dst, e.Revision, metadata)
	case s.m.as.Kind != "":
		partial := &metav1.PartialObjectMetadata{ObjectMeta: meta}
		partial.APIVersion, partial.Kind = metav1.GroupName+"/"+s.m.as.Version, "PartialObjectMetadata"
		return appendTyped(dst, s.m.encoding, partial, partial.APIVersion, partial.Kind)
	}
	if into := c.version.Model.New(); into != nil {
		accessor, ok := into.(metav1.ObjectMetaAccessor)
		if ok {
			accessor.GetObjectMeta().SetResourceVersion(meta.ResourceVersion)
			accessor.GetObjectMeta().SetAnnotations(meta.Annotations)
			into.GetObjectKind().SetGroupVersionKind(c.definition.GroupVersionKind(c.version))
			return appendTyped(dst, s.m.encoding, into, apiVersion, kind)
		}
	}
	dst = append(dst, `{"apiVersion":`...)
	dst = object.AppendString(dst, apiVersion)
	dst = append(dst, `,"kind":`...)
	dst = object.AppendString(dst, kind)
	dst = append(dst, `,"metadata":`...)
	metadata := resource.Tree{"resourceVersion": meta.ResourceVersion}
	if e.InitialEventsEnd {
		metadata["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	dst, err := object.AppendJSON(dst, metadata)
	return append(dst, '}'), err
}
