package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/stats"
)

// link is the connection to one member. Its calls are made once: nothing in it
// tries again by itself.
type link struct {
	endpoint  string
	client    *clientv3.Client
	kv        pb.KVClient
	watch     pb.WatchClient
	suspected chan struct{} // has a signal when it should be probed at once
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
		kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn),
	}, nil
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

// links is the link of the moment.
type links struct {
	mu struct {
		sync.Mutex
		now     *link
		cluster uint64        // identity of the etcd of all links
		down    chan struct{} // closed while no member answers
		cause   error         // of that
		changed chan struct{} // closed at each change of the above
	}
}

func (s *links) init() {
	s.mu.down, s.mu.changed = make(chan struct{}), make(chan struct{})
}

func (s *links) changedLocked() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

func (s *links) set(l *link, cluster uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cause != nil {
		s.mu.down, s.mu.cause = make(chan struct{}), nil
	}
	s.mu.now, s.mu.cluster = l, cluster
	s.changedLocked()
}

// clear says that there is no link; one may come soon.
func (s *links) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.now = nil
}

// fail says that no member answers. It returns false if that is known.
func (s *links) fail(cause error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cause == nil {
		news = true
		close(s.mu.down)
	}
	s.mu.cause = cause
	s.changedLocked()
	return news
}

// err returns why no member answers; nil unless the journal is down.
func (s *links) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cause
}

// isDown returns a channel that is closed while the journal is down.
func (s *links) isDown() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.down
}

func (s *links) identity() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cluster
}

// get returns the link, and waits for it if it may come soon. The error is ctx's,
// or why the journal is down.
func (s *links) get(ctx context.Context) (*link, error) {
	for {
		s.mu.Lock()
		now, cause, changed := s.mu.now, s.mu.cause, s.mu.changed
		s.mu.Unlock()
		if now != nil || cause != nil {
			return now, cause
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// first waits for a link also where none can be had at once.
func (s *links) first(ctx context.Context) error {
	for {
		s.mu.Lock()
		now, cause, changed := s.mu.now, s.mu.cause, s.mu.changed
		s.mu.Unlock()
		if now != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if cause != nil {
				return unavailable(cause)
			}
			return ctx.Err()
		}
	}
}

const (
	retryMin = 10 * time.Millisecond
	retryMax = time.Second
)

func (j *Journal) probeTimeout() time.Duration { return j.opts.RequestTimeout * 2 / 5 }
func (j *Journal) probeEvery() time.Duration   { return j.opts.RequestTimeout / 5 }

// keep sees to it that there is a link, as long as a member answers. The journal is
// not down before it has looked for one for a while: members may be about to elect
// a leader.
func (j *Journal) keep(ctx context.Context) {
	var pause pause
	var lost time.Time
	for ctx.Err() == nil {
		l, cluster, err := j.connect(ctx)
		if err != nil {
			if ctx.Err() == nil && time.Since(lost) >= j.probeTimeout() && j.links.fail(err) {
				j.log.Error("no member of etcd answers", "error", err)
			}
			pause.wait(ctx)
			continue
		}
		j.links.set(l, cluster)
		j.log.Info("connected to etcd", "endpoint", l.endpoint)
		pause.reset()
		err = j.watchOver(ctx, l)
		j.links.clear()
		lost = time.Now()
		l.client.Close()
		if ctx.Err() == nil {
			j.log.Warn("connection to etcd lost", "endpoint", l.endpoint, "error", err)
		}
	}
}

// watchOver returns why a link has to be given up.
func (j *Journal) watchOver(ctx context.Context, l *link) error {
	ticker := time.NewTicker(j.probeEvery())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-l.suspected:
		}
		if _, err := j.examine(ctx, l); err != nil {
			return err
		}
		j.lookForSpace(ctx, l)
	}
}

// examine returns an error unless the member answers, and is of the cluster that
// the sink is the fold of.
func (j *Journal) examine(ctx context.Context, l *link) (cluster uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.probeTimeout())
	defer cancel()
	before := j.position.now()
	at, cluster, err := l.probe(ctx, j.values.markKey())
	if err != nil {
		return 0, err
	}
	if known := j.links.identity(); known != 0 && known != cluster {
		return 0, fmt.Errorf("etcd has become another: its cluster is %x, was %x; restart the server", cluster, known)
	}
	if at < before {
		return 0, fmt.Errorf("etcd has gone back to revision %d from %d: its data has been replaced; restart the server", at, before)
	}
	return cluster, nil
}

// connect asks all members at once and takes the one that answers first.
func (j *Journal) connect(ctx context.Context) (*link, uint64, error) {
	type answer struct {
		*link
		cluster uint64
		err     error
	}
	race, end := context.WithCancel(ctx)
	defer end()
	answers := make(chan answer)
	for _, endpoint := range j.opts.Endpoints {
		j.running.Go(func() {
			a := answer{}
			if a.link, a.err = j.dial(ctx, endpoint); a.err == nil {
				a.cluster, a.err = j.examine(race, a.link)
			}
			if a.err != nil {
				a.err = fmt.Errorf("%s: %w", endpoint, a.err)
			}
			select {
			case answers <- a:
				if a.err == nil {
					return
				}
			case <-race.Done():
			}
			if a.link != nil {
				a.client.Close()
			}
		})
	}
	var errs []error
	for range j.opts.Endpoints {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.link, a.cluster, nil
			}
			errs = append(errs, a.err)
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	return nil, 0, errors.Join(errs...)
}

// pause is the time between attempts: it grows.
type pause struct{ next time.Duration }

func (p *pause) reset() { p.next = 0 }

func (p *pause) wait(ctx context.Context) {
	p.next = min(max(2*p.next, retryMin), retryMax)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
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
