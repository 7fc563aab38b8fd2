package oracle

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// store is the etcd of the server.
type store struct {
	etcd     *embed.Etcd
	client   *clientv3.Client
	endpoint string
}

func startStore(dir string) (*store, error) {
	anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c := embed.NewConfig()
	c.Dir = dir
	c.LogLevel = "fatal"
	c.UnsafeNoFsync = true
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{anyPort}, []url.URL{anyPort}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		etcd.Close()
		return nil, fmt.Errorf("etcd was not ready after 30 s")
	}
	return &store{
		etcd:     etcd,
		client:   v3client.New(etcd.Server),
		endpoint: "http://" + etcd.Clients[0].Addr().String(),
	}, nil
}

// compact does what kube-apiserver does every five minutes: it writes the revision to the key that
// the watch caches follow, and then compacts. The caches read that key every 15 seconds.
func (s *store) compact(ctx context.Context) error {
	now, err := s.client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	revision := now.Header.Revision
	if _, err := s.client.Put(ctx, "compact_rev_key", strconv.FormatInt(revision, 10)); err != nil {
		return err
	}
	_, err = s.client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	return err
}

func (s *store) stop() {
	s.client.Close()
	s.etcd.Close()
}
