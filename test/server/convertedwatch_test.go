package server_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
)

// A stream is a watch that a test reads.
type stream struct {
	*bufio.Scanner
	close func()
}

func (r *raw) watch(path string) *stream {
	r.Helper()
	resp, err := r.client.Get("http://kapok" + path)
	if err != nil {
		r.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		r.Fatalf("%s: %s", path, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &stream{lines, func() { resp.Body.Close() }}
}

// TestConvertedWatches checks that an event is converted once for all watches, and that none is
// lost while the webhook is down.
func TestConvertedWatches(t *testing.T) {
	c := startConverting(t)
	c.must(201, "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"a"},"spec":{"host":"h","port":"1"}}`)
	const watches = 20
	at := revisionOf(c.must(200, "GET", foos2, ""))
	var streams []*stream
	for n := range watches {
		path := foos + "?watch=1&resourceVersion=" + at
		if n%2 == 1 { // the previous object is converted too
			path += "&fieldSelector=spec.hostPort!%3Dx:x"
		}
		s := c.watch(path)
		defer s.close()
		streams = append(streams, s)
	}
	c.calls()
	c.must(200, "PATCH", foos2+"/a", `{"spec":{"host":"i"}}`, "Content-Type", mergePatch)
	for _, s := range streams {
		if !s.Scan() || !strings.Contains(s.Text(), `"type":"MODIFIED"`) || !strings.Contains(s.Text(), `"hostPort":"i:1"`) {
			t.Fatal(s.Text(), s.Err())
		}
	}
	if calls, _ := c.calls(); calls != 2 { // and one for the previous object
		t.Errorf("%d calls", calls)
	}
	c.must(200, "PATCH", foos2+"/a", `{"spec":{"host":"x","port":"x"}}`, "Content-Type", mergePatch)
	for n, s := range streams {
		want := []string{`"hostPort":"x:x"`, "MODIFIED"}
		if n%2 == 1 {
			want = []string{`"hostPort":"i:1"`, "DELETED"}
		}
		if !s.Scan() || !strings.Contains(s.Text(), want[0]) || !strings.Contains(s.Text(), want[1]) {
			t.Fatal(s.Text(), s.Err())
		}
		at = revisionOf(s.Text())
	}

	c.hook.Answer(func(*hooktest.Review) any { return 500 })
	c.must(200, "PATCH", foos2+"/a", `{"spec":{"host":"k","port":"1"}}`, "Content-Type", mergePatch)
	for _, s := range streams {
		if s.Scan() || s.Err() != nil { // it ends without an event
			t.Fatal(s.Text(), s.Err())
		}
	}
	if code, text := c.do("GET", foos+"?watch=1&resourceVersion="+at, ""); code != 429 {
		t.Errorf("%d %s", code, text)
	}
	c.must(200, "DELETE", foos2+"/a", "")
	c.hook.Answer(hostPorts(nil))
	s := c.watch(foos + "?watch=1&resourceVersion=" + at)
	defer s.close()
	for _, want := range []string{"MODIFIED", "DELETED"} {
		if !s.Scan() || !strings.Contains(s.Text(), want) || !strings.Contains(s.Text(), `"hostPort":"k:1"`) {
			t.Fatal(s.Text(), s.Err())
		}
	}
}

func revisionOf(text string) string {
	var v struct {
		Metadata, Object struct{ ResourceVersion string }
	}
	var event struct {
		Object struct {
			Metadata struct{ ResourceVersion string }
		}
	}
	if json.Unmarshal([]byte(text), &v) == nil && v.Metadata.ResourceVersion != "" {
		return v.Metadata.ResourceVersion
	}
	_ = json.Unmarshal([]byte(text), &event)
	return event.Object.Metadata.ResourceVersion
}
