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

// stream is an open watch of one range of keys. Its responses come with next, to
// one goroutine; ask may be called by another one.
type stream struct {
	grpc grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse]
	// idle is since when next has been waiting, in nanoseconds; zero while it is
	// not.
	idle atomic.Int64
	// part are the events of the newest revision, where a response comes in
	// fragments: there may be more of them.
	part []*mvccpb.Event
}

// open opens a watch. It ends with the context, and when the member has no leader.
// request.StartRevision must be one that the caller has already: the watch of a
// revision that etcd has just been compacted up to may lack its deletions.
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
	s := &stream{grpc: watch}
	created, err := s.receive()
	if err == nil && !created.Created {
		err = errors.New("etcd did not create the watch")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ask asks etcd to say how far the stream has come. It does not answer when the
// stream is behind.
func (s *stream) ask() error {
	return s.grpc.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// receive returns the next response that is none of an error.
func (s *stream) receive() (*pb.WatchResponse, error) {
	s.idle.Store(time.Now().UnixNano())
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

// next returns the next events: all of each of their revisions. With no events
// comes the revision that the stream has reached.
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

// stream follows one watch to its end, and returns why it ended.
func (f *follower) stream(ctx context.Context, l *link) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opening := time.AfterFunc(f.probeTimeout(), func() { cancel(errors.New("etcd does not open a watch")) })
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

// askOften asks a stream for its progress: at once, and then more and more seldom,
// where somebody waits for that, and now and then anyway. It returns an error if
// the stream brings nothing at all.
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
		if idle := s.idle.Load(); idle > 0 && time.Since(time.Unix(0, idle)) > f.probeTimeout()+every {
			return errors.New("the watch of etcd is silent")
		}
		if err := s.ask(); err != nil {
			return nil // the other side of the stream says why
		}
		if f.position.wanted() {
			timer.Reset(min(again, every))
			again = min(2*again, later)
		} else {
			timer.Reset(every)
		}
	}
}
