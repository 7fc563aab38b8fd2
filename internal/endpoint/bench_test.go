package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"
)

// sink is a client that discards everything and counts lines.
type sink struct {
	header http.Header
	bytes  int64
	lines  func(n int)
}

func (w *sink) Header() http.Header { return w.header }
func (w *sink) WriteHeader(int)     {}
func (w *sink) Flush()              {}
func (w *sink) Write(b []byte) (int, error) {
	w.bytes += int64(len(b))
	if w.lines != nil {
		w.lines(bytes.Count(b, []byte{'\n'}))
	}
	return len(b), nil
}

// fill stores n widgets of about 1.5 KB.
func (s *server) fill(n int) {
	for i := range n {
		s.must(201, "POST", widgetPath, widget(fmt.Sprintf("w%05d", i), `,"spec":{"text":"`+strings.Repeat("x", 1100)+`"}`))
	}
}

func (s *server) request(ctx context.Context, path string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "GET", path, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Header.Set("User-Agent", "bench/1")
	return r
}

func BenchmarkGet(b *testing.B) {
	s := newServer(b)
	s.fill(1)
	r := s.request(b.Context(), widgetPath+"/w00000", "Accept", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		r.Header.Set("Authorization", "Bearer "+token)
		w := &sink{header: http.Header{}}
		s.ServeHTTP(w, r)
	}
}

func BenchmarkList(b *testing.B) {
	for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		kind, _, _ := strings.Cut(strings.TrimPrefix(accept, "application/json"), ";v")
		b.Run(fmt.Sprintf("objects=5000%s", strings.ReplaceAll(kind, ";as", "/as")), func(b *testing.B) {
			s := newServer(b)
			s.fill(5000)
			r := s.request(b.Context(), widgetPath, "Accept", accept)
			b.ReportAllocs()
			for b.Loop() {
				r.Header.Set("Authorization", "Bearer "+token)
				w := &sink{header: http.Header{}}
				s.ServeHTTP(w, r)
				b.SetBytes(w.bytes)
			}
		})
	}
}

// BenchmarkWatch measures an event to 200 watchers, from the patch to the last of them.
func BenchmarkWatch(b *testing.B) {
	const watchers = 200
	s := newServer(b)
	s.fill(1)
	var told, ended sync.WaitGroup
	ctx, stop := context.WithCancel(b.Context())
	for range watchers {
		told.Add(1) // the existing object
		r := s.request(ctx, widgetPath+"?watch=1", "Authorization", "Bearer "+token)
		ended.Go(func() { s.ServeHTTP(&sink{header: http.Header{}, lines: func(n int) { told.Add(-n) }}, r) })
	}
	told.Wait()
	b.ReportAllocs()
	for b.Loop() {
		told.Add(watchers)
		patch := `{"metadata":{"annotations":{"r":"` + rand.String(8) + `"}}}`
		s.must(200, "PATCH", widgetPath+"/w00000", patch, "Content-Type", "application/merge-patch+json")
		told.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/watchers, "ns/event")
	stop()
	ended.Wait()
}
