package etcd_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/versions"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// A cluster is an etcd of several members in this process. Members can be stopped and started
// again.
type cluster struct {
	configs []*embed.Config

	mu      sync.Mutex
	members []*embed.Etcd // nil while stopped
}

func startCluster(t testing.TB, size int, change ...func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{members: make([]*embed.Etcd, size)}
	initial := ""
	for i := range size {
		config := embed.NewConfig()
		config.Name = fmt.Sprint("member", i)
		config.Dir = t.TempDir()
		config.LogLevel = "fatal"
		config.UnsafeNoFsync = true
		config.ListenClientUrls, config.AdvertiseClientUrls = freeURL(t), nil
		config.AdvertiseClientUrls = config.ListenClientUrls
		config.ListenPeerUrls = freeURL(t)
		config.AdvertisePeerUrls = config.ListenPeerUrls
		config.TickMs, config.ElectionMs = 10, 100
		for _, f := range change {
			f(config)
		}
		initial += "," + config.Name + "=" + config.AdvertisePeerUrls[0].String()
		c.configs = append(c.configs, config)
	}
	var all sync.WaitGroup
	for i := range size {
		c.configs[i].InitialCluster = initial[1:]
		all.Go(func() { c.start(t, i) })
	}
	all.Wait()
	t.Cleanup(func() {
		for i := range size {
			c.stop(i)
		}
	})
	return c
}

// freeURL returns the URL of an unused port.
func freeURL(t testing.TB) []url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return []url.URL{{Scheme: "http", Host: l.Addr().String()}}
}

func (c *cluster) start(t testing.TB, i int) {
	config := *c.configs[i]
	member, err := embed.StartEtcd(&config)
	if err != nil {
		t.Errorf("start member %d: %v", i, err)
		return
	}
	select {
	case <-member.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Errorf("member %d is not ready after 30 s", i)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[i] = member
}

// stop ends a member without notice to the others.
func (c *cluster) stop(i int) {
	c.mu.Lock()
	member := c.members[i]
	c.members[i] = nil
	c.mu.Unlock()
	if member == nil {
		return
	}
	member.Server.HardStop()
	member.Close()
}

// leader returns the index of the leader; -1 if there is none.
func (c *cluster) leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.members {
		if m != nil && uint64(m.Server.Leader()) == uint64(m.Server.MemberID()) {
			return i
		}
	}
	return -1
}

func (c *cluster) address(i int) string { return c.configs[i].ListenClientUrls[0].Host }

// client returns a client of all members that does not use the network.
func (c *cluster) client(t *testing.T) *clientv3.Client {
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

// A network has the connections of one replica to the members of a cluster.
type network struct{ wires []*wire }

func (c *cluster) network(t *testing.T) *network {
	t.Helper()
	n := &network{}
	for i := range c.configs {
		n.wires = append(n.wires, newWire(t, c.address(i)))
	}
	return n
}

func (n *network) cut()    { n.each((*wire).cut) }
func (n *network) freeze() { n.each((*wire).freeze) }
func (n *network) heal()   { n.each((*wire).heal) }

func (n *network) each(do func(*wire)) {
	for _, w := range n.wires {
		do(w)
	}
}

func (n *network) options(t *testing.T) etcd.Options {
	opts := etcd.Options{
		Logger:         slog.New(slog.NewTextHandler(t.Output(), nil)),
		RequestTimeout: time.Second,
		Paths:          kinds.Paths(),
		Decode:         versions.DecodeProtobuf,
	}
	for _, w := range n.wires {
		opts.Endpoints = append(opts.Endpoints, w.address())
	}
	return opts
}

// A replica is a journal and its fold.
type replica struct {
	*etcd.Journal
	*network
	twin *journaltest.Twin
}

func (c *cluster) replica(t *testing.T, change ...func(*etcd.Options)) *replica {
	t.Helper()
	r := &replica{network: c.network(t), twin: journaltest.NewPlainTwin()}
	opts := r.options(t)
	for _, f := range change {
		f(&opts)
	}
	j, err := etcd.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Journal = j
	t.Cleanup(func() {
		r.heal()
		j.Close()
	})
	if err := j.Recover(t.Context(), r.twin); err != nil {
		t.Fatal(err)
	}
	return r
}
