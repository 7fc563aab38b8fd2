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
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// stream is an open watch of one range of keys. One goroutine calls next; another one may call ask.
type stream struct {
	grpc grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse]
	// idle is when next started to wait, in nanoseconds since opened so that jumps of the wall
	// clock do not affect it; zero while next is not waiting.
	idle   atomic.Int64
	opened time.Time
	// part holds the events of the newest revision if a response arrives in fragments: more of them
	// may follow.
	part []*mvccpb.Event
}

// open opens a watch. It ends with the context, and when the member has no leader. The caller must
// already have request.StartRevision: a watch from the revision that etcd has just been compacted
// to may lack its deletions.
func open(ctx context.Context, l *link, request *pb.WatchCreateRequest) (*stream, error) {
	watch, err := l.watch.Watch(clientv3.WithRequireLeader(ctx))
	if err != nil {
		return nil, err
	}
	request.StartRevision = max(request.StartRevision, 1)
	request.Fragment = true
	err = watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}})
	if err != nil {
		return nil, err
	}
	s := &stream{grpc: watch, opened: time.Now()}
	created, err := s.receive()
	if err == nil && !created.Created {
		err = errors.New("etcd did not create the watch")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ask requests a progress notification. etcd does not send one while the stream is behind.
func (s *stream) ask() error {
	return s.grpc.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// receive returns the next response that is not an error.
func (s *stream) receive() (*pb.WatchResponse, error) {
	s.idle.Store(int64(max(time.Since(s.opened), 1)))
	response, err := s.grpc.Recv()
	s.idle.Store(0)
	switch {
	case err != nil:
		return nil, err
	case response.CompactRevision > 0:
		return nil, &compactedError{object.Revision(response.CompactRevision)}
	case response.Canceled:
		return nil, fmt.Errorf("etcd has ended the watch: %s", response.CancelReason)
	}
	return response, nil
}

// next returns the next events, complete for each of their revisions. Without events it returns the
// revision that the stream has reached.
func (s *stream) next() (events []*mvccpb.Event, reached object.Revision, err error) {
	for {
		response, err := s.receive()
		if err != nil {
			return nil, 0, err
		}
		if len(response.Events) == 0 && len(s.part) == 0 && !response.Fragment {
			return nil, object.Revision(response.Header.Revision), nil
		}
		events = append(s.part, response.Events...)
		whole := len(events)
		if response.Fragment && whole > 0 {
			last := events[whole-1].Kv.ModRevision
			for whole > 0 && events[whole-1].Kv.ModRevision == last {
				whole--
			}
		}
		s.part = append([]*mvccpb.Event(nil), events[whole:]...)
		if whole > 0 {
			return events[:whole], 0, nil
		}
	}
}

// stream follows one watch until it ends, and returns why it ended.
func (f *follower) stream(ctx context.Context, l *link) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opening := time.AfterFunc(f.probeTimeout(), func() { cancel(errors.New("etcd did not open a watch in time")) })
	from, to := f.values.all()
	s, err := open(ctx, l, &pb.WatchCreateRequest{Key: from, RangeEnd: to, StartRevision: int64(f.position.now()), ProgressNotify: true})
	if !opening.Stop() || err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	f.setDeaf(nil)

	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel(nil)
	asking.Go(func() {
		if err := f.askOften(ctx, s); err != nil {
			cancel(err)
		}
	})
	asking.Go(func() { f.readAgainOften(ctx) })
	for {
		events, reached, err := s.next()
		if err == nil {
			err = f.apply(events)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		f.reach(reached)
	}
}

// askOften asks a stream for its progress: at once and then with growing intervals while a waiter
// needs it, and at long intervals otherwise. It returns an error if the stream delivers nothing at
// all.
func (f *follower) askOften(ctx context.Context, s *stream) error {
	const soon, later = 5 * time.Millisecond, 100 * time.Millisecond
	every := f.probeEvery()
	again := soon
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.position.asked:
			again = soon
		case <-timer.C:
		}
		if idle := s.idle.Load(); idle > 0 && time.Since(s.opened)-time.Duration(idle) > f.probeTimeout()+every {
			return errors.New("the watch of etcd does not respond")
		}
		if err := s.ask(); err != nil {
			return nil // the receiving side returns the error
		}
		if f.position.wanted() {
			timer.Reset(min(again, every))
			again = min(2*again, later)
		} else {
			timer.Reset(every)
		}
	}
}
