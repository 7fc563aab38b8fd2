package kapoktest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// frayed is the body of a watch with faults injected into its events.
type frayed struct {
	body     io.ReadCloser
	events   *bufio.Reader
	protobuf bool
	rest     []byte // of the event that is being read
	injector *injector
	request  string
	ctx      context.Context // of the request
	synced   func()          // is called when all objects that are there have been sent; or nil
	once     sync.Once
	closed   chan struct{} // by the reader, or by a cut
}

func fray(ctx context.Context, answer *http.Response, i *injector, request string) *frayed {
	return &frayed{
		body: answer.Body, events: bufio.NewReader(answer.Body), injector: i, request: request, ctx: ctx, closed: make(chan struct{}),
		protobuf: strings.HasPrefix(answer.Header.Get("Content-Type"), "application/vnd.kubernetes.protobuf"),
	}
}

// Read implements io.Reader. It does not read beyond the end of an event.
func (w *frayed) Read(p []byte) (int, error) {
	if len(w.rest) == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// next reads an event.
func (w *frayed) next() error {
	event, err := w.event()
	if err != nil {
		return err
	}
	if isBookmark(event) {
		w.rest = event
		if w.synced != nil && bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)) {
			w.synced()
		}
		return nil
	}
	f := Fault{Request: w.request, Event: w.injector.next(w.request + " events")}
	if f.What = "DelayWatch"; w.injector.meets(f, w.injector.faults.DelayWatch) {
		w.pause(f, w.injector.length(f, w.injector.faults.MaxDelay))
	}
	if f.What = "CutWatch"; w.injector.meets(f, w.injector.faults.CutWatch) {
		w.Close()
	}
	select {
	case <-w.closed:
		return io.ErrUnexpectedEOF
	case <-w.ctx.Done():
		return w.ctx.Err()
	default:
	}
	w.rest = event
	return nil
}

// event returns the bytes of the next event: a line of JSON, or protobuf after its length.
func (w *frayed) event() ([]byte, error) {
	if !w.protobuf {
		event, err := w.events.ReadBytes('\n')
		if err == io.EOF && len(event) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return event, err
	}
	var size [4]byte
	if _, err := io.ReadFull(w.events, size[:]); err != nil {
		return nil, err
	}
	event := make([]byte, len(size)+int(binary.BigEndian.Uint32(size[:])))
	copy(event, size[:])
	_, err := io.ReadFull(w.events, event[len(size):])
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return event, err
}

// isBookmark reports whether an event is a bookmark, by its type, which comes first. Bookmarks
// depend on when the watch began, and are not repeatable.
func isBookmark(event []byte) bool {
	return bytes.Contains(event[:min(len(event), 32)], []byte("BOOKMARK"))
}

// pause delays an event, which is then delivered, in the same moment, or dropped.
func (w *frayed) pause(f Fault, d time.Duration) {
	defer w.injector.hold(f)()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
	case <-w.injector.over:
	case <-w.closed:
	case <-w.ctx.Done():
	}
}

// Close implements io.Closer.
func (w *frayed) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.body.Close()
}
