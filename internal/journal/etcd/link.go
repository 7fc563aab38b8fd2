package etcd

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/stats"
)

// link is one connection to one member. When the connection breaks, the link cannot be used any
// more, so all requests over a link go to the etcd that was examined. Calls are made once, without
// automatic retries.
type link struct {
	endpoint    string
	client      *clientv3.Client
	kv          pb.KVClient
	watch       pb.WatchClient
	maintenance pb.MaintenanceClient
	suspected   chan struct{} // receives a signal when the link must be probed at once
}

// dial connects to a member. It gets a token from etcd if a user is set.
func (j *Journal) dial(ctx context.Context, endpoint string) (*link, error) {
	timeout := j.probeTimeout()
	client, err := clientv3.New(clientv3.Config{
		Context:         ctx,
		Endpoints:       []string{endpoint},
		TLS:             j.opts.TLS,
		Username:        j.opts.Username,
		Password:        j.opts.Password,
		DialTimeout:     timeout,
		MaxUnaryRetries: 1, // the default is 100 attempts, also when etcd may have received a request
		Logger:          zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithStatsHandler(sentHandler{}),
			grpc.WithContextDialer(connectOnce()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), // a page of large objects must fit
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: retryMin, Multiplier: 2, Jitter: 0.2, MaxDelay: timeout},
				MinConnectTimeout: timeout,
			}),
		},
	})
	if err != nil {
		return nil, err
	}
	conn := client.ActiveConnection()
	return &link{
		endpoint: endpoint, client: client, suspected: make(chan struct{}, 1),
		kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn), maintenance: pb.NewMaintenanceClient(conn),
	}, nil
}

// connectOnce returns a dialer that connects once.
func connectOnce() func(context.Context, string) (net.Conn, error) {
	var connected atomic.Bool
	return func(ctx context.Context, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("the connection is lost")
		}
		network := "tcp"
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			network, address = "unix", strings.TrimPrefix(path, "//")
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, network, address)
		connected.Store(err == nil)
		return conn, err
	}
}

// suspect requests a probe after an error that the member may have caused.
func (l *link) suspect() {
	select {
	case l.suspected <- struct{}{}:
	default:
	}
}

// probe does a linearizable read. It returns etcd's revision and cluster ID.
func (l *link) probe(ctx context.Context, key []byte) (object.Revision, uint64, error) {
	response, err := l.kv.Range(ctx, &pb.RangeRequest{Key: key, KeysOnly: true})
	if err != nil {
		return 0, 0, err
	}
	return object.Revision(response.Header.Revision), response.Header.ClusterId, nil
}

// sentKey is the context key of an *atomic.Bool that becomes true when a request starts to be sent.
type sentKey struct{}

// sentHandler sets the value under sentKey.
type sentHandler struct{}

func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); ok {
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
			sent.Store(true)
		}
	}
}

func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentHandler) HandleConn(context.Context, stats.ConnStats)                       {}
