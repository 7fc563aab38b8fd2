package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/framer"
)

// A stream is an open watch. Its goroutine reads events until the stream ends; close stops it and
// waits.
type stream struct {
	cancel context.CancelFunc
	events chan event // closed at the end of the stream
	done   chan struct{}
}

// An event is a decoded watch event, or the error of decoding it.
type event struct {
	kind   string
	object any
	err    error
}

func (s *session) stepWatch(input string, p parameters) (string, error) {
	r, err := s.parseRequest(input, p)
	if err != nil {
		return "", err
	}
	if p.as == "" || s.streams[p.as] != nil {
		return "", fmt.Errorf("watch needs as=NAME, with a name of its own")
	}
	ctx, cancel := context.WithCancel(context.Background())
	begun := time.AfterFunc(patience, cancel)
	response, err := s.open(ctx, r, p.anonymous)
	for p.until != 0 && err == nil && response.StatusCode != p.until && pause(ctx) {
		response.Body.Close()
		response, err = s.open(ctx, r, p.anonymous)
	}
	begun.Stop()
	if err != nil {
		cancel()
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		a, err := readAnswer(response)
		if err != nil {
			return "", err
		}
		return a.print(s.n, p)
	}
	w := &stream{cancel: cancel, events: make(chan event, 1000), done: make(chan struct{})}
	s.streams[p.as] = w
	go w.read(ctx, response)
	a := answer{code: response.StatusCode, header: response.Header}
	return a.print(s.n, p)
}

func (w *stream) close() {
	w.cancel()
	<-w.done
}

func (w *stream) read(ctx context.Context, r *http.Response) {
	defer close(w.done)
	defer close(w.events)
	defer r.Body.Close()
	next := decoderOf(r)
	for {
		e := next()
		if e.err == io.EOF || e.err != nil && ctx.Err() != nil {
			return
		}
		select {
		case w.events <- e:
		case <-ctx.Done():
			return
		}
		if e.err != nil {
			return
		}
	}
}

// decoderOf returns a function that decodes the next event; its error is io.EOF at the end.
func decoderOf(r *http.Response) func() event {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == protobufMedia {
		return protobufEvents(r.Body)
	}
	d := json.NewDecoder(r.Body)
	d.UseNumber()
	return func() event {
		var e struct {
			Type   string
			Object any
		}
		err := d.Decode(&e)
		return event{kind: e.Type, object: e.Object, err: err}
	}
}

func protobufEvents(body io.ReadCloser) func() event {
	frames := framer.NewLengthDelimitedFrameReader(body)
	buffer := make([]byte, 1<<20)
	return func() event {
		n, err := frames.Read(buffer)
		if err != nil {
			return event{err: err}
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(buffer[:n]); err != nil {
			return event{err: err}
		}
		object, err := decodeProtobuf(e.Object.Raw)
		return event{kind: e.Type, object: object, err: err}
	}
}

func (s *session) stepEvents(p parameters) (string, error) {
	w := s.streams[p.name]
	if w == nil {
		return "", fmt.Errorf("no stream %q", p.name)
	}
	if (p.count > 0) == p.end {
		return "", fmt.Errorf("events needs count=N or end")
	}
	var b strings.Builder
	tooLate := time.After(patience)
	for i := 0; p.end || i < p.count; i++ {
		select {
		case e, open := <-w.events:
			if !open {
				b.WriteString("end of stream\n")
				return b.String(), nil
			}
			if e.err != nil {
				return b.String(), e.err
			}
			s.printEvent(&b, e, p)
		case <-tooLate:
			return "", fmt.Errorf("no event after %s; before it:\n%s", patience, b.String())
		}
	}
	return b.String(), nil
}

func (s *session) printEvent(b *strings.Builder, e event, p parameters) {
	normalise := s.n.value
	if e.kind == "BOOKMARK" {
		normalise = s.n.bookmark
	}
	v := normalise(e.object, p.managed)
	if len(p.show) == 0 {
		b.WriteString(e.kind + " ")
		printJSON(b, v, "", len(e.kind)+1)
		b.WriteByte('\n')
		return
	}
	b.WriteString(e.kind)
	for _, path := range p.show {
		if value, found := field(v, path); found {
			b.WriteString(" " + path + "=" + compact(value))
		}
	}
	b.WriteByte('\n')
}
