package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// A fakeServer has config maps and serves lists and watches of them, badly: it is an
// http.RoundTripper with faults.
type fakeServer struct {
	mu        sync.Mutex
	random    *rand.Rand
	revision  int
	objects   map[string]*corev1.ConfigMap
	history   []fakeEvent
	compacted int // the last revision that is forgotten
	pages     map[string][]*corev1.ConfigMap
	changed   chan struct{}

	noStreams  bool    // it refuses streaming lists
	mute       bool    // it takes them for plain watches, as old servers do
	faults     float64 // how often a request or an event goes wrong
	requests   []string
	onRequest  func(r *http.Request) *http.Response // nil, or for what it does not return nil
	cutAllOnce chan struct{}
}

type fakeEvent struct {
	kind     string
	revision int
	object   *corev1.ConfigMap
}

func newFakeServer(seed uint64) *fakeServer {
	return &fakeServer{random: rand.New(rand.NewPCG(seed, 1)), revision: 10, objects: map[string]*corev1.ConfigMap{},
		pages: map[string][]*corev1.ConfigMap{}, changed: make(chan struct{}), cutAllOnce: make(chan struct{})}
}

func fakeMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return m
}

// put creates or changes an object, and remove removes it.
func (s *fakeServer) put(namespace, name string) *corev1.ConfigMap {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	rv := strconv.Itoa(s.revision)
	key, kind := namespace+"/"+name, "MODIFIED"
	uid := types.UID("uid-" + rv)
	if old := s.objects[key]; old != nil {
		uid = old.UID
	} else {
		kind = "ADDED"
	}
	o := &corev1.ConfigMap{Data: map[string]string{"written": rv, "text": strings.Repeat("\\\"{[é<", s.revision%7)},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, ResourceVersion: rv}}
	s.objects[key] = o
	s.tellLocked(fakeEvent{kind, s.revision, o})
	return o
}

func (s *fakeServer) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + name
	if old := s.objects[key]; old != nil {
		delete(s.objects, key)
		s.revision++
		last := old.DeepCopy()
		last.ResourceVersion = strconv.Itoa(s.revision)
		s.tellLocked(fakeEvent{"DELETED", s.revision, last})
	}
}

func (s *fakeServer) tellLocked(e fakeEvent) {
	s.history = append(s.history, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact forgets all history.
func (s *fakeServer) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.history = s.revision, nil
}

// cut ends all watches.
func (s *fakeServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cutAllOnce)
	s.cutAllOnce = make(chan struct{})
}

func (s *fakeServer) setFaults(f float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// wrong says that now is the time for a fault.
func (s *fakeServer) wrong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64() < s.faults
}

func (s *fakeServer) any(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

func (s *fakeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.RawQuery)
	hook := s.onRequest
	s.mu.Unlock()
	if hook != nil {
		if resp := hook(r); resp != nil {
			return resp, nil
		}
	}
	if s.wrong() {
		switch s.any(4) {
		case 0:
			return nil, errors.New("connection refused")
		case 1:
			return answer(r, 500, []byte("no, and not a Status")), nil
		case 2:
			return s.fail(r, apierrors.NewTooManyRequests("slower", 3)), nil
		default:
			return s.fail(r, apierrors.NewInternalError(errors.New("oh"))), nil
		}
	}
	if r.URL.Query().Get("watch") == "" {
		return s.list(r), nil
	}
	return s.watch(r), nil
}

func answer(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {media(r)}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ProtoMajor: 1, ProtoMinor: 1}
}

func (s *fakeServer) fail(r *http.Request, err *apierrors.StatusError) *http.Response {
	resp := answer(r, int(err.ErrStatus.Code), encode(r, &err.ErrStatus))
	if d := err.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", fmt.Sprint(d.RetryAfterSeconds))
	}
	return resp
}

func media(r *http.Request) string {
	return mediaOf(strings.Contains(r.Header.Get("Accept"), "protobuf"))
}

func encode(r *http.Request, obj runtime.Object) []byte {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media(r))
	b, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), obj)
	if err != nil {
		panic(err)
	}
	return b
}

// encodeEvent is a frame of a watch.
func encodeEvent(r *http.Request, kind string, obj runtime.Object) []byte {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media(r))
	var b bytes.Buffer
	event := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: encode(r, obj)}}
	err := scheme.Codecs.EncoderForVersion(info.StreamSerializer, corev1.SchemeGroupVersion).Encode(event, info.StreamSerializer.Framer.NewFrameWriter(&b))
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (s *fakeServer) sortedLocked() []*corev1.ConfigMap {
	var all []*corev1.ConfigMap
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		all = append(all, s.objects[key])
	}
	return all
}

func (s *fakeServer) list(r *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.revision)}}
	items := s.sortedLocked()
	if token := q.Get("continue"); token != "" {
		var ok bool
		if items, ok = s.pages[token]; !ok || s.random.Float64() < s.faults {
			return s.fail(r, apierrors.NewResourceExpired("the continue token is too old"))
		}
		delete(s.pages, token)
		list.ResourceVersion = strings.Split(token, "-")[0]
	}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 {
		limit = 3 // as it likes
		if len(items) > limit {
			list.Continue = fmt.Sprintf("%s-%d", list.ResourceVersion, s.random.Int())
			s.pages[list.Continue], items = items[limit:], items[:limit]
		}
	}
	for _, o := range items {
		list.Items = append(list.Items, *o)
	}
	return answer(r, 200, encode(r, list))
}

func (s *fakeServer) watch(r *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	w := &fakeWatch{server: s, request: r, ctx: r.Context(), cut: s.cutAllOnce}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	if q.Get("sendInitialEvents") == "true" {
		if s.noStreams {
			return s.fail(r, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil))
		}
		for _, o := range s.sortedLocked() {
			w.buf.Write(encodeEvent(r, "ADDED", o))
		}
		if !s.mute {
			w.buf.Write(encodeEvent(r, "BOOKMARK", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.revision),
				Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}))
		}
		from = s.revision
	} else if from < s.compacted {
		gone := apierrors.NewResourceExpired("too old resource version")
		if s.random.IntN(2) == 0 {
			return s.fail(r, gone)
		}
		w.buf.Write(encodeEvent(r, "ERROR", &gone.ErrStatus))
		w.last = true
	}
	w.at = from
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {media(r) + ";stream=watch"}}, Body: w, Request: r,
		ProtoMajor: 1, ProtoMinor: 1}
}

// fakeWatch is the body of a watch.
type fakeWatch struct {
	server  *fakeServer
	request *http.Request
	ctx     context.Context
	cut     chan struct{}
	buf     bytes.Buffer
	at      int
	last    bool // it ends after what is in buf
}

func (w *fakeWatch) Close() error { return nil }

func (w *fakeWatch) Read(b []byte) (int, error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return 0, err
		}
		if w.buf.Len() > 0 {
			n := min(len(b), w.buf.Len(), 1+w.server.any(2000))
			return w.buf.Read(b[:n])
		}
		if w.last {
			return 0, io.EOF
		}
		s := w.server
		s.mu.Lock()
		changed := s.changed
		if w.at < s.compacted { // it is too slow
			gone := apierrors.NewResourceExpired("too old resource version")
			w.buf.Write(encodeEvent(w.request, "ERROR", &gone.ErrStatus))
			w.last = true
		}
		for _, e := range s.history {
			if w.last || e.revision <= w.at {
				continue
			}
			w.at = e.revision
			frame := encodeEvent(w.request, e.kind, e.object)
			if s.random.Float64() < s.faults {
				switch s.random.IntN(3) {
				case 0: // cut in the frame
					frame = frame[:s.random.IntN(len(frame))]
				case 1: // an error instead
					frame = encodeEvent(w.request, "ERROR", &apierrors.NewInternalError(errors.New("oh")).ErrStatus)
				case 2: // in order
				}
				w.last = true
			}
			w.buf.Write(frame)
			if s.random.IntN(8) == 0 && !w.last {
				w.buf.Write(encodeEvent(w.request, "BOOKMARK", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(w.at)}}))
			}
		}
		s.mu.Unlock()
		if w.buf.Len() > 0 || w.last {
			continue
		}
		select {
		case <-changed:
		case <-w.cut:
			w.last = true
		case <-w.ctx.Done():
		}
	}
}
