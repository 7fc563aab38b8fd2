package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// A cluster is an etcd in this process.
type cluster struct {
	configs []*embed.Config

	mu      sync.Mutex
	members []*embed.Etcd // nil while stopped
	lines   [][]*line     // of all servers, by member
}

func startCluster(t testing.TB, size int, change ...func(*embed.Config)) *cluster {
	t.Helper()
	for attempt := 1; ; attempt++ {
		c := configure(t, size, change...)
		errs := make([]error, size)
		var starting sync.WaitGroup
		for i := range size {
			starting.Go(func() { errs[i] = c.start(i) })
		}
		starting.Wait()
		err := errors.Join(errs...)
		if err == nil {
			t.Cleanup(c.killAll)
			return c
		}
		c.killAll()
		// Another process may have taken the free port meanwhile.
		if !errors.Is(err, syscall.EADDRINUSE) || attempt == 3 {
			t.Fatal(err)
		}
	}
}

// configure returns the configurations of a new cluster.
func configure(t testing.TB, size int, change ...func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{members: make([]*embed.Etcd, size), lines: make([][]*line, size)}
	all := ""
	for i := range size {
		config := embed.NewConfig()
		config.Name, config.Dir = fmt.Sprint("m", i), t.TempDir()
		config.LogLevel = "fatal"
		config.UnsafeNoFsync = true
		config.ListenClientUrls, config.ListenPeerUrls = freeURL(t), freeURL(t)
		config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
		config.TickMs, config.ElectionMs = 50, 500
		for _, f := range change {
			f(config)
		}
		all += "," + config.Name + "=" + config.AdvertisePeerUrls[0].String()
		c.configs = append(c.configs, config)
	}
	for _, config := range c.configs {
		config.InitialCluster = all[1:]
	}
	return c
}

// freeURL returns the URL of an unused port outside the range of ephemeral ports, so that it is
// still free when a member restarts.
func freeURL(t testing.TB) []url.URL {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer l.Close()
			return []url.URL{{Scheme: "http", Host: l.Addr().String()}}
		}
	}
	t.Fatal("there are no free ports")
	return nil
}

// start starts a member, and waits until it serves if there is a majority.
func (c *cluster) start(i int) error {
	config := *c.configs[i]
	member, err := embed.StartEtcd(&config)
	if err != nil {
		return fmt.Errorf("start member %d: %w", i, err)
	}
	c.mu.Lock()
	c.members[i] = member
	c.mu.Unlock()
	select {
	case <-member.Server.ReadyNotify():
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("member %d is not ready after a minute", i)
	}
}

// kill ends a member without notice to the others. Its clients are disconnected before, as etcd's
// server would otherwise use closed resources, which ends the process.
func (c *cluster) kill(i int) {
	c.mu.Lock()
	member := c.members[i]
	c.members[i] = nil
	c.mu.Unlock()
	if member == nil {
		return
	}
	c.ways(i, (*line).cut)
	defer c.ways(i, (*line).heal)
	<-time.After(100 * time.Millisecond)
	member.Server.HardStop()
	member.Close()
}

func (c *cluster) killAll() {
	for i := range c.configs {
		c.kill(i)
	}
}

// way returns a line to a member.
func (c *cluster) way(t testing.TB, i int) *line {
	t.Helper()
	l := newLine(t, c.address(i))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[i] = append(c.lines[i], l)
	return l
}

// ways calls a function for all lines to a member.
func (c *cluster) ways(i int, do func(*line)) {
	c.mu.Lock()
	lines := slices.Clone(c.lines[i])
	c.mu.Unlock()
	for _, l := range lines {
		do(l)
	}
}

// leader returns the index of the leader; -1 if there is none.
func (c *cluster) leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.members {
		if m != nil && m.Server.Leader() == m.Server.MemberID() {
			return i
		}
	}
	return -1
}

// isolate disconnects a member from the others, but not from clients.
func (c *cluster) isolate(i int) {
	c.peers(i, func(a, b *embed.Etcd) { a.Server.CutPeer(b.Server.MemberID()) })
}

// rejoin ends isolate.
func (c *cluster) rejoin(i int) {
	c.peers(i, func(a, b *embed.Etcd) { a.Server.MendPeer(b.Server.MemberID()) })
}

// peers calls a function for both directions between a member and each other one.
func (c *cluster) peers(i int, do func(from, to *embed.Etcd)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for j, other := range c.members {
		if j != i && other != nil && c.members[i] != nil {
			do(c.members[i], other)
			do(other, c.members[i])
		}
	}
}

func (c *cluster) address(i int) string { return c.configs[i].ListenClientUrls[0].Host }

// client returns a client of all members without lines.
func (c *cluster) client(t testing.TB) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for i := range c.configs {
		endpoints = append(endpoints, c.address(i))
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// revision returns etcd's revision.
func revision(t testing.TB, client *clientv3.Client) int64 {
	t.Helper()
	response, err := client.Get(t.Context(), "/", clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

// stored returns etcd's value of a key; empty if there is none.
func stored(t testing.TB, client *clientv3.Client, key string) string {
	t.Helper()
	response, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) == 0 {
		return ""
	}
	return string(response.Kvs[0].Value)
}

func put(t testing.TB, client *clientv3.Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.Put(ctx, key, value); err != nil {
		t.Fatal(err)
	}
}
