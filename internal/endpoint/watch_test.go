package endpoint

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// pipes is a listener without a network, for tests in virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// client serves s over pipes and returns a client.
func (s *server) client() *http.Client {
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	web := &http.Server{Handler: s.Handler}
	go func() { _ = web.Serve(listener) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case listener.conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	s.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = web.Close()
	})
	return &http.Client{Transport: transport}
}

// clientStream is the client side of a watch.
type clientStream struct {
	testing.TB
	body   io.ReadCloser
	lines  *bufio.Reader
	header http.Header
}

func (s *server) watchStream(c *http.Client, path string, headers ...string) *clientStream {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "GET", "http://server"+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	if answer.StatusCode != 200 {
		text, _ := io.ReadAll(answer.Body)
		s.Fatalf("watch %s: %d %s", path, answer.StatusCode, text)
	}
	return &clientStream{TB: s.TB, body: answer.Body, lines: bufio.NewReader(answer.Body), header: answer.Header}
}

type event struct {
	Type   string
	Object json.RawMessage
}

// next returns the next event as "TYPE name resourceVersion"; "end" if there is none.
func (w *clientStream) next() (string, event) {
	w.Helper()
	line, err := w.lines.ReadBytes('\n')
	if err == io.EOF {
		return "end", event{}
	}
	if err != nil {
		w.Fatal(err)
	}
	e := decode[event](w.TB, string(line))
	if e.Type == "ERROR" {
		status := decode[metav1.Status](w.TB, string(e.Object))
		return fmt.Sprintf("ERROR %d %s", status.Code, status.Reason), e
	}
	o := decode[metav1.PartialObjectMetadata](w.TB, string(e.Object))
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Type, o.Name, o.ResourceVersion)), e
}

func (w *clientStream) want(all ...string) event {
	w.Helper()
	var e event
	for _, want := range all {
		var got string
		if got, e = w.next(); got != want {
			w.Fatalf("got %q, want %q", got, want)
		}
	}
	return e
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		s.must(201, "POST", widgetPath, widget("a", "")) // 2
		w := s.watchStream(c, widgetPath+"?watch=1&resourceVersion=1&timeoutSeconds=600")
		if got := w.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("content type %s", got)
		}
		w.want("ADDED a 2")
		s.must(200, "PATCH", widgetPath+"/a", `{"spec":{"size":1}}`, "Content-Type", "application/merge-patch+json")
		w.want("MODIFIED a 3")
		s.must(200, "DELETE", widgetPath+"/a", "")
		deleted := w.want("DELETED a 4")
		if !strings.HasPrefix(string(deleted.Object), `{"apiVersion":"example.com/v1","kind":"Widget",`) || !strings.Contains(string(deleted.Object), `"size":1`) {
			t.Errorf("deleted: %s", deleted.Object)
		}
		began := time.Now()
		w.want("end")
		if lasted := time.Since(began); lasted != 600*time.Second {
			t.Errorf("the watch lasted %s", lasted)
		}
	})
}

// TestWatchesInProtobuf checks which watches count as those that need protobuf, and that responses
// of writes are the same with and without them.
func TestWatchesInProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		watched := func() (found bool) {
			s.protobuf.Range(func(_, n any) bool {
				found = found || n.(*atomic.Int64).Load() > 0
				return true
			})
			return found
		}
		watch := func(accept string) {
			w := s.watchStream(c, configMapPath+"?watch=1&timeoutSeconds=5", "Accept", accept)
			go func() { _, _ = io.Copy(io.Discard, w.body) }()
		}
		create := func(name string) string {
			return s.must(201, "POST", configMapPath, configMap(name, ""), "Accept", contentTypeProtobuf)
		}
		same := func(name, response string) {
			t.Helper()
			if read := s.must(200, "GET", configMapPath+"/"+name, "", "Accept", contentTypeProtobuf); read != response {
				t.Errorf("the response of the write is %q, that of a read %q", response, read)
			}
		}
		same("alone", create("alone"))
		for _, accept := range []string{"application/json", contentTypeProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
			watch(accept)
		}
		if synctest.Wait(); watched() {
			t.Error("watches in other media types count")
		}
		watch(contentTypeProtobuf + ";stream=watch")
		if synctest.Wait(); !watched() {
			t.Error("the watch does not count")
		}
		same("watched", create("watched"))
		time.Sleep(10 * time.Second)
		if watched() {
			t.Error("the watch has ended, and counts")
		}
	})
}

func TestWatchBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		s.must(201, "POST", widgetPath, widget("a", ""))       // 2
		s.must(201, "POST", configMapPath, configMap("a", "")) // 3
		w := s.watchStream(c, widgetPath+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=90")
		began := time.Now()
		end := w.want("ADDED a 2", "BOOKMARK  3")
		if got := string(end.Object); got != `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"3"}}` {
			t.Errorf("end of the initial events: %s", got)
		}
		s.must(201, "POST", configMapPath, configMap("b", "")) // 4
		w.want("BOOKMARK  4")
		if passed := time.Since(began); passed != time.Minute {
			t.Errorf("a bookmark after %s", passed)
		}
		w.want("BOOKMARK  4")
		if passed := time.Since(began); passed != 88*time.Second {
			t.Errorf("the last bookmark after %s", passed)
		}
		w.want("end")

		w = s.watchStream(c, configMapPath+"?watch=1&resourceVersion=4&allowWatchBookmarks=true")
		if got := string(w.want("BOOKMARK  4").Object); got != `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"4"}}` {
			t.Errorf("bookmark of a built-in kind: %s", got)
		}
		s.EndWatches()
		w.want("end")
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		w := s.watchStream(c, widgetPath+"?watch=1&resourceVersion=1")
		s.must(201, "POST", widgetPath, widget("a", ""))
		s.store.Registry().Remove(schema.GroupResource{Group: "example.com", Resource: "widgets"})
		w.want("ADDED a 2", "end")

		w = s.watchStream(c, configMapPath+"?watch=1")
		w.body.Close() // the client disconnects
		synctest.Wait()

		w = s.watchStream(c, configMapPath+"?watch=1")
		began := time.Now()
		w.want("end") // by itself
		if lasted := time.Since(began); lasted < minWatch || lasted > 2*minWatch {
			t.Errorf("a watch lasted %s", lasted)
		}
	})
}

func TestWatchOldPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		s.must(201, "POST", configMapPath, configMap("a", "")) // 2
		s.must(201, "POST", configMapPath, configMap("b", "")) // 3
		w := s.watchStream(c, "/api/v1/watch/namespaces/default/configmaps/b?resourceVersion=1&timeoutSeconds=5")
		w.want("ADDED b 3", "end")
		w = s.watchStream(c, "/api/v1/watch/configmaps?resourceVersion=1&timeoutSeconds=5")
		w.want("ADDED a 2", "ADDED b 3", "end")
		w = s.watchStream(c, "/api/v1/configmaps?watch&fieldSelector=metadata.name%3Da&timeoutSeconds=5")
		w.want("ADDED a 2", "end")
	})
}

func TestWatchTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		s.must(201, "POST", widgetPath, widget("a", `,"spec":{"size":3}`)) // 2
		s.must(200, "DELETE", widgetPath+"/a", "")                         // 3
		w := s.watchStream(c, widgetPath+"?watch=1&resourceVersion=1&timeoutSeconds=100&allowWatchBookmarks=1", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		for i, revision := range []string{"2", "3", "3"} {
			_, e := w.next()
			table := decode[metav1.Table](t, string(e.Object))
			if (len(table.ColumnDefinitions) == 2) != (i == 0) || table.ResourceVersion != revision || len(table.Rows) != 1 {
				t.Fatalf("table %d: %s", i, e.Object)
			}
			row := decode[metav1.PartialObjectMetadata](t, string(table.Rows[0].Object.Raw))
			if row.ResourceVersion != revision || row.Kind != "PartialObjectMetadata" {
				t.Errorf("row: %+v", row)
			}
		}
		w = s.watchStream(c, widgetPath+"?watch=1&resourceVersion=1&timeoutSeconds=100", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		s.watchStream(c, widgetPath+"?watch=1&resourceVersion=1", "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").want("end")
		e := w.want("ADDED a 2", "DELETED a 3")
		if !strings.Contains(string(e.Object), `"PartialObjectMetadata"`) {
			t.Errorf("partial: %s", e.Object)
		}
	})
}

func TestWatchProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client()
		s.must(201, "POST", configMapPath, configMap("a", `,"data":{"k":"v"}`)) // 2
		s.must(200, "DELETE", configMapPath+"/a", "")                           // 3
		w := s.watchStream(c, configMapPath+"?watch=1&resourceVersion=1&timeoutSeconds=100&allowWatchBookmarks=1", "Accept", contentTypeProtobuf)
		if got := w.header.Get("Content-Type"); got != "application/vnd.kubernetes.protobuf;stream=watch" {
			t.Errorf("content type %s", got)
		}
		for _, want := range []string{"ADDED a 2", "DELETED a 3", "BOOKMARK  3"} {
			var size [4]byte
			if _, err := io.ReadFull(w.lines, size[:]); err != nil {
				t.Fatal(err)
			}
			frame := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(w.lines, frame); err != nil {
				t.Fatal(err)
			}
			var e metav1.WatchEvent
			if err := e.Unmarshal(frame); err != nil {
				t.Fatal(err)
			}
			o := decodeProtobuf[corev1.ConfigMap](t, string(e.Object.Raw), "v1 ConfigMap")
			if got := fmt.Sprintf("%s %s %s", e.Type, o.Name, o.ResourceVersion); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestWatchErrors(t *testing.T) {
	s := newServer(t)
	if text := s.must(500, "GET", widgetPath+"?watch=1&resourceVersion=x", ""); !strings.Contains(text, "invalid syntax") {
		t.Errorf("invalid revision: %s", text)
	}
	s.must(422, "GET", widgetPath+"?watch=1&sendInitialEvents=true", "")
	s.EndWatches()
	s.must(429, "GET", widgetPath+"?watch=1", "") // informers retry later, without a new list
}

// TestWatchesBeginInTurn checks that a watch of many objects waits for its turn, and that one of a
// few does not.
func TestWatchesBeginInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.must(201, "POST", configMapPath, configMap("a", ""))
		for range cap(s.encoders) {
			s.encoders.Take()
		}
		c := s.client()
		next := func(w *clientStream) <-chan event {
			got := make(chan event, 1)
			go func() {
				_, e := w.next()
				got <- e
			}()
			synctest.Wait()
			return got
		}
		if got := next(s.watchStream(c, configMapPath+"?watch=1")); len(got) != 1 {
			t.Error("a watch of one object waits for a turn")
		}
		for i := range manyEvents {
			s.must(201, "POST", configMapPath, configMap(fmt.Sprint("b", i), ""))
		}
		many := next(s.watchStream(c, configMapPath+"?watch=1"))
		if len(many) != 0 {
			t.Error("a watch of many objects does not wait for a turn")
		}
		s.encoders.Give()
		if e := <-many; e.Type != "ADDED" {
			t.Errorf("with a turn: %+v", e)
		}
	})
}
