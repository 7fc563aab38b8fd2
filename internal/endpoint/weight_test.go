package endpoint

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"

	corev1 "k8s.io/api/core/v1"
)

// TestWeight estimates bodies of ordinary shape, which must fit into the minimum of memory, and
// bodies that are made to take more.
func TestWeight(t *testing.T) {
	const least = 128 << 20 // see fairness.DefaultMemory
	pod := func(containers int) []byte {
		p := corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, containers)}}
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return appendEnvelope(nil, "v1", "Pod", data)
	}
	text := strings.Repeat("Some text, as it may stand in a config map.\n", 60_000)
	for _, c := range []struct {
		name     string
		encoding encoding
		data     string
		typed    bool
		from, to int64
	}{
		{"empty", asJSON, "{}", true, 1, lightRequest},
		{"a small pod", asJSON, `{"spec":{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":"1"}}}]}}`, true, 1, lightRequest},
		{"a long text", asJSON, `{"data":{"a":"` + text + `"}}`, true, lightRequest, least},
		{"a long text in YAML", asYAML, "data:\n  a: |\n" + text[:1_500_000], true, lightRequest, least},
		{"a long text in protobuf", asProtobuf, string(appendEnvelope(nil, "v1", "ConfigMap", appendText(nil, 2, text))), true, lightRequest, least},
		{"a large custom resource", asJSON, `{"spec":[` + strings.Repeat(`{"name":"one of many","value":"and another text"},`, 20_000), false, lightRequest, least},
		{"empty objects", asJSON, `{"spec":{"containers":[` + strings.Repeat(`{},`, 100_000), true, 4 * least, 1 << 40},
		{"empty objects of a custom resource", asJSON, `{"spec":[` + strings.Repeat(`{},`, 1_000_000), false, 4 * least, 1 << 40},
		{"empty texts", asJSON, `{"spec":{"dnsConfig":{"searches":[` + strings.Repeat(`"",`, 1_000_000), true, 4 * least, 1 << 40},
		{"many numbers in a custom resource", asJSON, `{"spec":[` + strings.Repeat(`1,`, 500_000), false, lightRequest, least},
		{"empty lists", asJSON, `{"spec":[` + strings.Repeat(`[],`, 1_000_000), false, least, 1 << 40},
		{"empty objects in YAML", asYAML, "spec:\n  containers:\n" + strings.Repeat("  - {}\n", 400_000), true, 4 * least, 1 << 40},
		{"JSON in a text", asJSON, `{"data":{"a":"` + strings.Repeat(`{\"a\":[]},`, 100_000) + `"}}`, true, lightRequest, least},
		{"empty objects in protobuf", asProtobuf, string(pod(100_000)), true, 4 * least, 1 << 40},
	} {
		if got := weight(c.encoding, []byte(c.data), c.typed); got < c.from || got > c.to {
			t.Errorf("%s: %d bytes, want %d to %d", c.name, got, c.from, c.to)
		}
	}
}

// TestWeightOfAnything estimates bodies that do not match their Content-Type.
func TestWeightOfAnything(t *testing.T) {
	for _, data := range []string{"", "k8s", "k8s\x00", "k8s\x00\xff", "k8s\x00\x0a\xff\xff\xff\xff\x0f", "k8s\x00" + strings.Repeat("\x0a\x7f", 100)} {
		for _, e := range []encoding{asJSON, asYAML, asProtobuf} {
			if got := weight(e, []byte(data), true); got < 0 || got > lightRequest {
				t.Errorf("%v %q: %d", e, data, got)
			}
		}
	}
}

// TestHeavyRequests sends bodies that take much memory: all get a response, those that fit are
// executed, and all memory is released.
func TestHeavyRequests(t *testing.T) {
	s := newServer(t, func(o *Options) { o.RequestMemory = 64 << 20 })
	heavy := func(objects int) string {
		return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generateName":"w"},"spec":[` + strings.TrimSuffix(strings.Repeat("{},", objects), ",") + `]}`
	}
	const path = "/apis/example.com/v1/namespaces/default/widgets"
	if w := s.do("POST", path, heavy(100_000)); w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "the limit is 64 MiB") {
		t.Errorf("a body that fits into no server: %d %.300s", w.Code, w.Body)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if w := s.do("POST", path, heavy(30_000)); w.Code != http.StatusCreated {
				t.Errorf("a heavy body: %d %.300s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	for name, m := range map[string]*fairness.Memory{"memory": s.memory, "heavy": s.heavy, "bodies": s.bodies, "unread": s.unread} {
		if n := m.Used(); n != 0 {
			t.Errorf("%s: %d are left", name, n)
		}
	}
}

// TestHeavyRequestsUnread sends a heavy body and does not read the response: no other request waits
// for the memory of the body.
func TestHeavyRequestsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		waits := make(chan struct{})
		done := make(chan any)
		body := configMap("c", `,"data":{"a":"`+strings.Repeat("x", 1_000_000)+`"}`)
		r := httptest.NewRequestWithContext(t.Context(), "POST", configMapPath, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		go func() {
			defer func() { done <- recover() }()
			s.ServeHTTP(&stuck{w, waits}, r)
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if s.heavy.Used() != 0 || s.memory.Used() != 0 {
			t.Errorf("an answer that is not read keeps %d heavy places and %d bytes", s.heavy.Used(), s.memory.Used())
		}
		close(waits)
		if reason := <-done; reason != nil || w.Code != http.StatusCreated {
			t.Errorf("%v, %d", reason, w.Code)
		}
		for name, m := range map[string]*fairness.Memory{"memory": s.memory, "heavy": s.heavy, "bodies": s.bodies, "unread": s.unread} {
			if n := m.Used(); n != 0 {
				t.Errorf("%s: %d are left", name, n)
			}
		}
	})
}

// TestWeightOfWhatIsStored changes and deletes an object that weighs more than there is memory,
// because managedFields were added to it, or it was created with more memory.
func TestWeightOfWhatIsStored(t *testing.T) {
	s := newServer(t, func(o *Options) { o.RequestMemory = 64 << 20 })
	heavy := `,"spec":[` + strings.TrimSuffix(strings.Repeat("{},", 45_000), ",") + `]`
	s.must(http.StatusCreated, "POST", widgetPath, widget("w", heavy))
	s.memory = fairness.NewMemory(32 << 20)
	for _, c := range []struct{ method, contentType, body string }{
		{"PATCH", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`},
		{"DELETE", "application/json", `{"propagationPolicy":"Background"}`},
	} {
		if w := s.do(c.method, widgetPath+"/w", c.body, "Content-Type", c.contentType); w.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", c.method, w.Code, w.Body)
		}
	}
}

// TestWeightOfYAML sends YAML that takes more than half of the memory as JSON, and YAML that is
// large for a server with hardly any memory.
func TestWeightOfYAML(t *testing.T) {
	s := newServer(t, func(o *Options) { o.RequestMemory = 64 << 20 })
	body := strings.Builder{}
	body.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  ownerReferences:\n")
	for i := range 4_000 {
		fmt.Fprintf(&body, "  - {apiVersion: v1, kind: Pod, name: p%d, uid: u%d}\n", i, i)
	}
	s.must(http.StatusCreated, "POST", configMapPath, body.String(), "Content-Type", "application/yaml")
	s = newServer(t, func(o *Options) { o.RequestMemory = 1 << 10 })
	s.must(http.StatusRequestEntityTooLarge, "POST", configMapPath, body.String(), "Content-Type", "application/yaml")
	for name, m := range map[string]*fairness.Memory{"memory": s.memory, "bodies": s.bodies} {
		if n := m.Used(); n != 0 {
			t.Errorf("%s: %d are left", name, n)
		}
	}
}

// TestHeavyRequestsWaitForSeats lets a heavy request wait for a seat: it does not occupy the place
// that it will need. A request that waits for the place occupies no seat.
func TestHeavyRequestsWaitForSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateBodies(t)
		heavy := configMap("c", `,"data":{"a":"`+strings.Repeat("x", 1_000_000)+`"}`)
		for n := int64(0); n < l.heavy.Total(); n++ {
			l.heavy.Try(fmt.Sprint(n), 1)
		}
		body, answer := l.create()
		io.WriteString(body, heavy)
		body.Close()
		synctest.Wait()
		if _, writing := l.limiter.InFlight(); writing != 0 {
			t.Errorf("a request that waits for a heavy one keeps %d seats", writing)
		}
		l.heavy.Release("0", 1)
		l.requests.Wait()
		if answer.Code != http.StatusCreated {
			t.Errorf("%d %.300s", answer.Code, answer.Body)
		}
	})
}

// TestCopiesAreWeighed applies JSON patches of 4 KB to an object of 60 KB that grow it to 3 MB.
func TestCopiesAreWeighed(t *testing.T) {
	s := newServer(t, func(o *Options) { o.RequestMemory = 64 << 20 })
	s.must(http.StatusCreated, "POST", widgetPath, widget("w", `,"spec":{"l":[1`+strings.Repeat(",1", 30_000)+`],"s":[1]}`))
	patch := func(copies int, from string) *httptest.ResponseRecorder {
		ops := make([]string, copies)
		for i := range ops {
			ops[i] = fmt.Sprintf(`{"op":"copy","from":"/spec/%s","path":"/spec/a%d"},{"op":"test","path":"/spec/a%d/0","value":1}`, from, i, i)
		}
		return s.do("PATCH", widgetPath+"/w?dryRun=All", "["+strings.Join(ops, ",")+"]", "Content-Type", "application/json-patch+json")
	}
	if w := patch(52, "l"); w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "the limit is 64 MiB") {
		t.Errorf("copies that fit into no server: %d %.300s", w.Code, w.Body)
	}
	if w := patch(5, "l"); w.Code != http.StatusOK {
		t.Errorf("a few copies: %d %.300s", w.Code, w.Body)
	}
	s.memory.Try("other", s.memory.Total())
	if w := patch(5, "l"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a few copies without memory: %d %v %.300s", w.Code, w.Header(), w.Body)
	}
	if w := patch(52, "s"); w.Code != http.StatusOK {
		t.Errorf("light copies without memory: %d %.300s", w.Code, w.Body)
	}
	s.memory.Release("other", s.memory.Total())
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
