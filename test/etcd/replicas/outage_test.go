package replicas

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestNoMajority checks what docs/replicas.md says about an outage of etcd.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	servers := c.startServers(t, 2)
	a := servers[0]
	before := a.must(t, 201, "POST", configMaps, configMap("before", "x"))
	watch := a.watch(t, configMaps, before.Metadata.ResourceVersion)
	c.kill(0)
	c.kill(1)
	for i, s := range servers {
		eventually(t, 20*time.Second, fmt.Sprintf("server %d notices", i), func() bool {
			return s.do(t, "GET", "/readyz", "").status == 500
		})
		s.must(t, 200, "GET", "/livez", "")
		for _, path := range []string{configMaps + "/before?resourceVersion=0", configMaps + "?resourceVersion=0"} {
			s.must(t, 200, "GET", path, "")
		}
	}
	// At first there may be an election; soon the servers know that there is none.
	for _, patience := range []time.Duration{6 * time.Second, 2 * time.Second, 2 * time.Second} {
		for _, r := range [][3]string{
			{"GET", configMaps, ""},
			{"GET", configMaps + "/before", ""},
			{"POST", configMaps, configMap("during", "x")},
			{"PUT", configMaps + "/before", configMap("before", "y")},
			{"DELETE", configMaps + "/before", ""},
		} {
			begin := time.Now()
			got := a.do(t, r[0], r[1], r[2])
			took := time.Since(begin)
			seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
			if got.status != 503 || err != nil || seconds < 1 || got.Reason != "ServiceUnavailable" {
				t.Errorf("%s %s: %v, Retry-After %q", r[0], r[1], got, got.header.Get("Retry-After"))
			}
			if took > patience {
				t.Errorf("%s %s: it took %v to say that there is no etcd", r[0], r[1], took)
			}
		}
	}
	if len(watch.events) > 0 {
		t.Errorf("a rejected write has happened: %v", <-watch.events)
	}

	for i := range 2 {
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range servers {
		eventually(t, 20*time.Second, fmt.Sprintf("server %d comes back", i), func() bool {
			return s.do(t, "GET", "/readyz", "").status == 200
		})
	}
	a.must(t, 404, "GET", configMaps+"/during", "") // 503 means that nothing was written
	servers[1].must(t, 200, "PUT", configMaps+"/before", configMap("before", "z"))
	if got := watch.next(t, 1)[0]; got.Type != "MODIFIED" || got.Object.Data["value"] != "z" {
		t.Errorf("the watch continues with %v", got)
	}
}

// TestMajorityLostUnderWriters checks that responses at the beginning of an outage may be late, but
// not wrong.
func TestMajorityLostUnderWriters(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	a := c.startServer(t)
	acknowledged, refused := map[string]bool{}, map[string]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; len(refused) < 20; i++ {
			name := fmt.Sprint("c", i)
			got, err := a.try(t.Context(), "POST", configMaps, configMap(name, ""))
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
				return
			case got.status == 201:
				acknowledged[name] = true
			case got.status == 503:
				refused[name] = true
			case got.status != 504:
				t.Errorf("%s: %v", name, got)
			}
		}
	}()
	c.kill(c.leader())
	for c.leader() < 0 {
		<-time.After(10 * time.Millisecond)
	}
	c.kill(c.leader())
	<-done
	for i := range 3 {
		if c.members[i] == nil {
			if err := c.start(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, 20*time.Second, "the server comes back", func() bool { return a.do(t, "GET", "/readyz", "").status == 200 })
	for _, item := range a.must(t, 200, "GET", configMaps, "").items {
		delete(acknowledged, item.Metadata.Name)
		if refused[item.Metadata.Name] {
			t.Errorf("%s was written although the write was rejected", item.Metadata.Name)
		}
	}
	for name := range acknowledged {
		t.Errorf("%s is lost", name)
	}
}

// TestCompactedWhileCutOff checks that a server that was disconnected for longer than the history
// has the right objects afterwards, and that its watchers miss nothing, or get an error that events
// are missing.
func TestCompactedWhileCutOff(t *testing.T) {
	t.Parallel()
	for name, compact := range map[string]func(t *testing.T, etcd *clientv3.Client, other *server){
		"by etcd's user": func(t *testing.T, etcd *clientv3.Client, _ *server) {
			if _, err := etcd.Compact(t.Context(), revision(t, etcd)); err != nil {
				t.Fatal(err)
			}
		},
		"by another server": func(t *testing.T, _ *clientv3.Client, other *server) {
			if err := other.kapok.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 1)
			a, b := c.startServer(t), c.startServer(t)
			const secrets = "/api/v1/namespaces/default/secrets"
			for _, name := range []string{"stays", "changes", "goes", "returns"} {
				b.must(t, 201, "POST", configMaps, configMap(name, "old"))
			}
			// Objects that a server reads at its start cause no events: the watches begin later.
			start := a.must(t, 200, "GET", configMaps, "").Metadata.ResourceVersion
			busy, quiet := a.watch(t, configMaps, start), a.watch(t, secrets, start)

			a.reach((*line).cut)
			eventually(t, 20*time.Second, "the server notices", func() bool { return a.do(t, "GET", "/readyz", "").status == 500 })
			b.must(t, 200, "PUT", configMaps+"/changes", configMap("changes", "between"))
			b.must(t, 200, "PUT", configMaps+"/changes", configMap("changes", "new"))
			b.must(t, 200, "DELETE", configMaps+"/goes", "")
			b.must(t, 200, "DELETE", configMaps+"/returns", "")
			b.must(t, 201, "POST", configMaps, configMap("returns", "new"))
			b.must(t, 201, "POST", configMaps, configMap("comes", "new"))
			compact(t, c.client(t), b)
			a.reach((*line).heal)
			eventually(t, 20*time.Second, "the server comes back", func() bool { return a.do(t, "GET", "/readyz", "").status == 200 })

			want := map[string]string{"stays": "old", "changes": "new", "returns": "new", "comes": "new"}
			for _, query := range []string{"", "?resourceVersion=0"} {
				got := map[string]string{}
				for _, item := range a.must(t, 200, "GET", configMaps+query, "").items {
					got[item.Metadata.Name] = item.Data["value"]
				}
				if !maps.Equal(got, want) {
					t.Errorf("%q: %v, want %v", query, got, want)
				}
			}
			b.must(t, 201, "POST", secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"after"}}`)
			b.must(t, 201, "POST", configMaps, configMap("after", "new"))
			told(t, "configmaps", busy, []string{"MODIFIED changes", "MODIFIED changes", "DELETED goes", "DELETED returns",
				"ADDED returns", "ADDED comes", "ADDED after"})
			told(t, "secrets", quiet, []string{"ADDED after"})
		})
	}
}

// told reads a watch until it has received all events, or 410 Gone.
func told(t *testing.T, what string, w *watch, want []string) {
	t.Helper()
	for i := range want {
		e := w.next(t, 1)[0]
		if e.Type == "ERROR" && e.Object.Code == 410 {
			t.Logf("%s: gone after %d events", what, i)
			return
		}
		if got := e.Type + " " + e.Object.Metadata.Name; got != want[i] {
			t.Fatalf("%s: event %d is %s, want %s: something was missed", what, i, got, want[i])
		}
	}
	t.Logf("%s: all %d events", what, len(want))
}

// TestHistoryWithoutEtcd checks that a server that has just started reads the history from etcd.
// During an outage of etcd it returns that it is unavailable, and neither that the revision is
// compacted nor an internal error. A revision that it has read before is still served, as history
// does not change.
func TestHistoryWithoutEtcd(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a := c.startServer(t)
	start := a.must(t, 201, "POST", configMaps, configMap("a", "first")).Metadata.ResourceVersion
	second := a.must(t, 200, "PUT", configMaps+"/a", configMap("a", "second")).Metadata.ResourceVersion
	a.must(t, 200, "PUT", configMaps+"/a", configMap("a", "third"))
	b := c.startServer(t)
	exact := configMaps + "?resourceVersionMatch=Exact&resourceVersion="
	past := func(revision string) string {
		items := b.must(t, 200, "GET", exact+revision, "").items
		if len(items) != 1 {
			t.Fatalf("%d items", len(items))
		}
		return items[0].Data["value"]
	}
	if got := past(start); got != "first" {
		t.Errorf("the past is %q", got)
	}
	b.reach((*line).cut)
	eventually(t, 20*time.Second, "the server notices", func() bool { return b.do(t, "GET", "/readyz", "").status == 500 })
	eventually(t, 20*time.Second, "the server knows", func() bool { return b.do(t, "GET", configMaps, "").status == 503 })
	if got := b.do(t, "GET", exact+second, ""); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a list of the past: %d %s", got.status, got.body)
	}
	if got := past(start); got != "first" {
		t.Errorf("the past that was read before is %q", got)
	}
	// A watch may be rejected, wait, or end. An error event would make clients list.
	got := b.do(t, "GET", configMaps+"?watch=1&timeoutSeconds=1&resourceVersion="+start, "")
	if refused := got.status == 503 && got.header.Get("Retry-After") != ""; !refused && (got.status != 200 || got.body != "") {
		t.Errorf("a watch of the past: %d %s", got.status, got.body)
	}
	b.reach((*line).heal)
	eventually(t, 20*time.Second, "the server comes back", func() bool { return b.do(t, "GET", "/readyz", "").status == 200 })
	if got := past(second); got != "second" {
		t.Errorf("the past is %q", got)
	}
	if got := b.watch(t, configMaps, start).next(t, 1)[0]; got.Type != "MODIFIED" || got.Object.Data["value"] != "second" {
		t.Errorf("received %v", got)
	}
}
