package etcd_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// TestIdle checks that Sync does not stall if only other servers write.
func TestIdle(t *testing.T) {
	c := startCluster(t, 1)
	a, client := c.replica(t), c.client(t)
	a.write(t, "a", "1")
	for i := range 20 {
		if _, err := client.Put(t.Context(), "/elsewhere", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := a.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 300*time.Millisecond {
			t.Errorf("sync took %v", took)
		}
	}
	if shared, err := a.Sync(t.Context()); !shared || err != nil {
		t.Errorf("shared %t, error %v", shared, err)
	}
}

// TestSyncSees checks that entries committed before a call of Sync are visible when it returns.
func TestSyncSees(t *testing.T) {
	c := startCluster(t, 3)
	a, b := c.replica(t), c.replica(t)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 50 {
				name := fmt.Sprint(w)
				rev := a.write(t, name, fmt.Sprint(i))
				if _, err := b.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				if at := b.twin.Revision(pod(name)); at != rev {
					t.Errorf("after sync %s is at revision %d, want %d", name, at, rev)
				}
			}
		})
	}
	all.Wait()
}

// TestLargeCatchUp checks that a replica catches up with more than fits into a message.
func TestLargeCatchUp(t *testing.T) {
	c := startCluster(t, 1)
	a, b := c.replica(t), c.replica(t)
	a.cut()
	for i := range 12 {
		b.write(t, fmt.Sprint(i%3), strings.Repeat("x", 1<<20)+fmt.Sprint(i))
	}
	a.heal()
	eventually(t, "recovery", func() bool { _, err := a.Sync(t.Context()); return err == nil })
	if err := b.twin.SameEntries(a.twin, 0); err != nil {
		t.Error(err)
	}
}

// TestTooLarge checks that a request that is rejected as too large, by any component, writes
// nothing.
func TestTooLarge(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica(t)
	for _, size := range []int{1536 << 10, 2 << 20, 3 << 20, 40 << 20} {
		_, err := a.Append(t.Context(), batch(entry(t, pod("a"), 0, strings.Repeat("x", size))))
		if !errors.Is(err, journal.ErrTooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	a.write(t, "a", strings.Repeat("x", 1500<<10))
}

// TestFull checks that when etcd has no space rejected writes do not exist, and that writes succeed
// when there is space again.
func TestFull(t *testing.T) {
	c := startCluster(t, 1, func(c *embed.Config) { c.QuotaBackendBytes = 8 << 20 })
	a := c.replica(t)
	var book ledger
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 40 {
				k := pod(fmt.Sprint(w, "-", i))
				text := fmt.Sprint(w, "-", i, strings.Repeat("x", 100<<10))
				rev, err := a.Append(t.Context(), batch(entry(t, k, 0, text)))
				book.add(write{key: k, text: text, revision: rev, err: err})
			}
		})
	}
	all.Wait()
	if !errors.Is(a.Health(), journal.ErrFull) {
		t.Errorf("health: %v", a.Health())
	}
	if _, err := a.Append(t.Context(), batch(entry(t, pod("one more"), 0, "x"))); !errors.Is(err, journal.ErrFull) {
		t.Errorf("append: %v", err)
	}
	// A deletion needs no space.
	some := a.twin.Entries()[0]
	if _, err := a.Append(t.Context(), batch(journal.Entry{Key: some.Key, Prev: some.Revision})); err != nil {
		t.Errorf("delete: %v", err)
	}
	client := c.client(t)
	if _, err := client.Delete(t.Context(), "/registry/pods/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	head, err := client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), head.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(t.Context(), c.address(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "health", func() bool { return a.Health() == nil })
	a.write(t, "one more", "x")
	book.checkFull(t, a)
}

// checkFull is check, without the deletions, which belong to no writer.
func (l *ledger) checkFull(t *testing.T, r *replica) {
	there := map[string]bool{}
	for _, e := range r.twin.Entries() {
		if e.Object != nil {
			there[textOf(t, e.Object)] = true
		}
	}
	counts := map[string]int{}
	for _, w := range l.writes {
		switch {
		case w.err == nil:
			counts["acknowledged"]++
			if !there[w.text] {
				t.Errorf("%s was acknowledged, but does not exist", w.key)
			}
		case errors.Is(w.err, journal.ErrFull):
			counts["full"]++
			if there[w.text] {
				t.Errorf("%s was rejected, but exists", w.key)
			}
		case errors.Is(w.err, journal.ErrUnknown):
			counts["unknown"]++
		default:
			t.Errorf("%s: %v", w.key, w.err)
		}
	}
	t.Log(counts)
	if counts["full"] == 0 || counts["acknowledged"] == 0 {
		t.Errorf("outcomes %v", counts)
	}
}

// TestTLSAndUsers checks that the journal supports TLS, users and passwords, and renews a token
// that etcd has forgotten.
func TestTLSAndUsers(t *testing.T) {
	c := startCluster(t, 1, func(c *embed.Config) {
		c.ListenClientUrls[0].Scheme = "https"
		c.ClientAutoTLS = true
		c.AuthToken = "simple"
		c.AuthTokenTTL = 1
	})
	insecure := &tls.Config{InsecureSkipVerify: true}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address(0)}, TLS: insecure, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, do := range []func() error{
		func() error { _, err := client.UserAdd(t.Context(), "root", "word"); return err },
		func() error { _, err := client.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := client.AuthEnable(t.Context()); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	n := c.network(t)
	opts := n.options(t)
	opts.TLS = insecure
	opts.DialTimeout, opts.RequestTimeout = 2*time.Second, 0
	if j, err := etcd.Open(t.Context(), opts); err == nil {
		j.Close()
		t.Error("opened without a name")
	}
	opts.Username, opts.Password = "root", "wrong"
	if j, err := etcd.Open(t.Context(), opts); err == nil {
		j.Close()
		t.Error("opened with a wrong password")
	}
	opts.Password, opts.DialTimeout = "word", 30*time.Second
	j, err := etcd.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a := &replica{Journal: j, network: n, twin: journaltest.NewPlainTwin()}
	if err := j.Recover(t.Context(), a.twin); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := j.Append(t.Context(), batch(entry(t, pod("a"), a.twin.Revision(pod("a")), fmt.Sprint(i)))); err != nil {
			t.Error(err)
		}
		time.Sleep(500 * time.Millisecond) // tokens of etcd age in real time
	}
	n.cut()
	n.heal()
	a.write(t, "a", "after")
}

// TestReplaced checks that an etcd other than the earlier one is rejected.
func TestReplaced(t *testing.T) {
	one, two := startCluster(t, 1), startCluster(t, 1)
	a := one.replica(t)
	for i := range 5 {
		a.write(t, "a", fmt.Sprint(i))
	}
	entries := len(a.twin.Entries())
	a.wires[0].moveTo(two.address(0))
	for range 20 {
		_, err := a.Append(t.Context(), batch(entry(t, pod("strange"), 0, "x")))
		if !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("append: %v", err)
		}
	}
	eventually(t, "health", func() bool {
		err := a.Health()
		return err != nil && strings.Contains(err.Error(), "cluster ID of etcd changed")
	})
	if _, err := a.Append(t.Context(), batch(entry(t, pod("b"), 0, "x"))); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("append: %v", err)
	}
	if all, err := two.client(t).Get(t.Context(), "", clientv3.WithPrefix()); err != nil || len(all.Kvs) > 0 {
		t.Errorf("the other etcd holds %v, error %v", all, err)
	}
	a.wires[0].moveTo(one.address(0))
	eventually(t, "health", func() bool { return a.Health() == nil })
	a.write(t, "a", "back")
	if n := len(a.twin.Entries()); n != entries+1 {
		t.Errorf("%d entries, want %d", n, entries+1)
	}
}

// TestGoroutines checks that none is left when a journal is closed, in any state.
func TestGoroutines(t *testing.T) {
	c := startCluster(t, 1)
	n := c.network(t)
	if _, err := c.client(t).Get(t.Context(), "x"); err != nil { // etcd is ready then
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	for _, state := range []func(){n.heal, n.cut, n.freeze} {
		n.heal()
		j, err := etcd.Open(t.Context(), n.options(t))
		if err != nil {
			t.Fatal(err)
		}
		twin := journaltest.NewTwin()
		if err := j.Recover(t.Context(), twin); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(t.Context(), batch(entry(t, pod("a"), twin.Revision(pod("a")), "x"))); err != nil {
			t.Fatal(err)
		}
		state()
		j.Sync(t.Context())
		j.History(t.Context(), pods, 0, 2, 0)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		n.cut()
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	}
}

// TestPages checks that entries that fit into no page, and into no message of the default size, are
// read back, and that each page is reported.
func TestPages(t *testing.T) {
	c := startCluster(t, 1)
	client := c.client(t)
	put := func(name, text string) {
		t.Helper()
		if _, err := client.Put(t.Context(), "/registry/pods/default/"+name, string(entry(t, pod(name), 0, text).Object.Raw)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1201 {
		put(fmt.Sprint((i*7)%1201), fmt.Sprint(i))
	}
	for i := range 8 {
		put(fmt.Sprint("large", i), strings.Repeat("x", 1<<20))
	}
	var reported []int64
	a := c.replica(t, func(o *etcd.Options) {
		o.Progress = func(read, total int64) {
			if reported = append(reported, read); total != 1209 {
				t.Errorf("%d of %d keys, want 1209", read, total)
			}
		}
	})
	if n := len(a.twin.Live()); n != 1209 {
		t.Errorf("%d objects, want 1209", n)
	}
	if want := []int64{500, 1000, 1209}; !slices.Equal(reported, want) {
		t.Errorf("reported %d, want %d", reported, want)
	}
	if report, err := a.Check(t.Context()); err != nil || report.Objects != 1209 || report.Bytes < 8<<20 || report.Head != a.twin.Head() {
		t.Errorf("report %+v, error %v", report, err)
	}
}

// TestCloseSoon checks that Close does not wait for an etcd that does not respond.
func TestCloseSoon(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica(t)
	last := a.write(t, "a", "x")
	a.freeze()
	errs := make(chan error, 2)
	go func() { _, err := a.History(t.Context(), pods, 0, last, 0); errs <- err }()
	go func() { _, err := a.Check(t.Context()); errs <- err }()
	time.Sleep(50 * time.Millisecond) // they are under way, or come too late: either is fine
	begin := time.Now()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("close took %v", took)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, journal.ErrClosed) && !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("a call ended with %v", err)
		}
	}
}
