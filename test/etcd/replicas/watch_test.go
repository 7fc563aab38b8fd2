package replicas

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestWatchGoesOnElsewhere checks that when a server dies, a watch continues on another one from
// the last resourceVersion, and receives the same events as an uninterrupted watch, even on a
// server that has just been started.
func TestWatchGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a, b := c.startServer(t), c.startServer(t)
	start := a.must(t, 200, "GET", configMaps, "").Metadata.ResourceVersion
	always, here := b.watch(t, configMaps, start), a.watch(t, configMaps, start)
	write := func(from int) {
		for i := from; i < from+20; i++ {
			name := fmt.Sprint("c", i)
			b.must(t, 201, "POST", configMaps, configMap(name, "new"))
			a.must(t, 200, "PUT", configMaps+"/"+name, configMap(name, "changed"))
			b.must(t, 200, "DELETE", configMaps+"/"+name, "")
		}
	}
	write(0)
	seen := here.next(t, 31)
	a.die()
	// Events that the dead server sent, and that were not read, are lost.
	if err := a.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(20)
	there := b.watch(t, configMaps, seen[len(seen)-1].Object.Metadata.ResourceVersion)
	seen = append(seen, there.next(t, 120-len(seen))...)
	want := always.next(t, 120)
	late := c.startServer(t).watch(t, configMaps, start).next(t, 120)
	for name, got := range map[string][]event{"resumed": seen, "on a new server": late} {
		if !slices.EqualFunc(got, want, func(x, y event) bool { return x.String() == y.String() }) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got, want)
		}
	}
	for i, e := range want {
		if wanted := []string{"ADDED", "MODIFIED", "DELETED"}[i%3]; e.Type != wanted || e.Object.Metadata.Name != fmt.Sprint("c", i/3) {
			t.Fatalf("event %d is %v", i, e)
		}
	}
}

// TestSelectiveWatchGoesOnElsewhere checks that objects that enter and leave a selection cause the
// same events on a running server and on one that reads them from etcd's history.
func TestSelectiveWatchGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a := c.startServer(t)
	start := a.must(t, 200, "GET", configMaps, "").Metadata.ResourceVersion
	var want []string
	for i := range 10 {
		name := fmt.Sprint("c", i)
		a.must(t, 201, "POST", configMaps, configMap(name, "")) // not selected
		for n, label := range []string{`"in"`, `"in"`, `"out"`, `"in"`, `null`, `"in"`} {
			a.must(t, 200, "PATCH", configMaps+"/"+name, fmt.Sprintf(`{"metadata":{"labels":{"where":%s}},"data":{"n":"%d"}}`, label, n))
		}
		a.must(t, 200, "DELETE", configMaps+"/"+name, "")
		for _, e := range []string{"ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED", "ADDED", "DELETED"} {
			want = append(want, e+" "+name)
		}
	}
	for name, s := range map[string]*server{"there": a, "new": c.startServer(t)} {
		got := s.watch(t, configMaps, start+"&labelSelector=where%3Din").next(t, len(want))
		for i, e := range got {
			if told := e.Type + " " + e.Object.Metadata.Name; told != want[i] {
				t.Errorf("%s: event %d is %s, want %s", name, i, told, want[i])
			}
		}
	}
}

// TestReadsAreNew checks that a write through one server is visible on another one at once, in gets
// and lists, even without other writes, and while etcd is busy with foreign keys.
func TestReadsAreNew(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a, b := c.startServer(t), c.startServer(t)
	etcd := c.client(t)
	a.must(t, 201, "POST", configMaps, configMap("new", ""))
	var slowest time.Duration
	begin := time.Now()
	const rounds = 1000
	for i := range rounds {
		value := fmt.Sprint(i)
		a.must(t, 200, "PUT", configMaps+"/new", configMap("new", value))
		if i%10 == 0 {
			put(t, etcd, "/elsewhere", value)
		}
		asked := time.Now()
		if i%2 == 0 {
			if got := b.must(t, 200, "GET", configMaps+"/new", "").Data["value"]; got != value {
				t.Fatalf("get %d: %q", i, got)
			}
		} else {
			list := b.must(t, 200, "GET", configMaps+"?limit=500", "")
			if !slices.ContainsFunc(list.items, func(m meta) bool { return m.Data["value"] == value }) {
				t.Fatalf("list %d: %s", i, list.body)
			}
		}
		slowest = max(slowest, time.Since(asked))
	}
	took := time.Since(begin)
	t.Logf("%v for a write and a read; the slowest read took %v", took/rounds, slowest)
	// An unrequested progress notification comes every second or so.
	if took > rounds*250*time.Millisecond {
		t.Error("reads wait for an event")
	}
}

// TestIdle checks that idle servers write their leases, and nothing else.
func TestIdle(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.startServers(t, 3)
	etcd := c.client(t)
	const leases = "/registry/leases/kube-system/kapok-"
	<-time.After(6 * time.Second) // writes caused by the start
	from := revision(t, etcd)
	changes := map[string]int{}
	watch := etcd.Watch(t.Context(), "\x00", watchFrom(from+1)...)
	for over := time.After(30 * time.Second); over != nil; {
		select {
		case response := <-watch:
			if err := response.Err(); err != nil {
				t.Fatal(err)
			}
			for _, e := range response.Events {
				changes[string(e.Kv.Key)]++
			}
		case <-over:
			over = nil
		}
	}
	writes := revision(t, etcd) - from
	t.Logf("%d writes in 30 s: %v", writes, changes)
	// Three servers and the leader, every five seconds.
	if writes < 4*4 || writes > 4*7 {
		t.Errorf("%d writes in 30 s, want about 24", writes)
	}
	if len(changes) != 4 {
		t.Errorf("%d keys are written, want 4", len(changes))
	}
	for key := range changes {
		if len(key) < len(leases) || key[:len(leases)] != leases {
			t.Errorf("%s is written", key)
		}
	}
}

// TestPatchesTogether checks that concurrent patches of one object through several servers are
// retried if they have no resourceVersion, and that no acknowledged one is lost.
func TestPatchesTogether(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 1).startServers(t, 3)
	servers[0].must(t, 201, "POST", configMaps, configMap("shared", ""))
	var mu sync.Mutex
	acknowledged, conflicts := map[string]bool{}, 0
	var patching sync.WaitGroup
	for i, s := range servers {
		for j := range 3 {
			patching.Go(func() {
				for n := range 20 {
					key := fmt.Sprintf("k%d-%d-%d", i, j, n)
					got, err := s.try(t.Context(), "PATCH", configMaps+"/shared", fmt.Sprintf(`{"data":{%q:"x"}}`, key))
					mu.Lock()
					switch {
					case err != nil:
						t.Error(err)
					case got.status == 200 && got.Data[key] == "x":
						acknowledged[key] = true
					case got.status == 409: // after five attempts
						conflicts++
					default:
						t.Errorf("%s: %v", key, got)
					}
					mu.Unlock()
				}
			})
		}
	}
	patching.Wait()
	t.Logf("%d patches, %d conflicts", len(acknowledged), conflicts)
	if len(acknowledged) < 90 {
		t.Error("too few patches succeeded")
	}
	for _, s := range servers {
		data := s.must(t, 200, "GET", configMaps+"/shared", "").Data
		for key := range acknowledged {
			if data[key] != "x" {
				t.Errorf("%s is lost", key)
			}
			delete(data, key)
		}
		delete(data, "value")
		if len(data) > 0 {
			t.Errorf("rejected, but applied: %v", data)
		}
	}
}
