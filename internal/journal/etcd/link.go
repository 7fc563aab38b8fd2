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

// link is the connection to one member, of one stretch: when it breaks the link is
// of no use any more. So all that goes over a link goes to the etcd that was
// examined. Its calls are made once: nothing in it tries again by itself.
type link struct {
	endpoint    string
	client      *clientv3.Client
	kv          pb.KVClient
	watch       pb.WatchClient
	maintenance pb.MaintenanceClient
	suspected   chan struct{} // has a signal when it should be probed at once
}

// dial connects to a member. It asks etcd for a token if there is a user.
func (j *Journal) dial(ctx context.Context, endpoint string) (*link, error) {
	timeout := j.probeTimeout()
	client, err := clientv3.New(clientv3.Config{
		Context:         ctx,
		Endpoints:       []string{endpoint},
		TLS:             j.opts.TLS,
		Username:        j.opts.Username,
		Password:        j.opts.Password,
		DialTimeout:     timeout,
		MaxUnaryRetries: 1, // the default is to try 100 times, also where etcd may have taken a request
		Logger:          zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithStatsHandler(sentHandler{}),
			grpc.WithContextDialer(connectOnce()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), // a page of large objects
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

// suspect says that something went wrong that may be the member's fault.
func (l *link) suspect() {
	select {
	case l.suspected <- struct{}{}:
	default:
	}
}

// probe is a linearizable read. It returns etcd's revision, and its identity.
func (l *link) probe(ctx context.Context, key []byte) (object.Revision, uint64, error) {
	response, err := l.kv.Range(ctx, &pb.RangeRequest{Key: key, KeysOnly: true})
	if err != nil {
		return 0, 0, err
	}
	return object.Revision(response.Header.Revision), response.Header.ClusterId, nil
}

// sentKey is the context's key for an *atomic.Bool, which becomes true when a
// request begins to be sent.
type sentKey struct{}

// sentHandler sets what is under sentKey.
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
