package etcd

import (
	"context"
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestOutcome(t *testing.T) {
	lost := status.Error(codes.Unavailable, "error reading from server: EOF")
	for _, test := range []struct {
		err   error
		sent  bool
		want  error
		again bool
	}{
		{lost, false, journal.ErrUnavailable, true},
		{lost, true, journal.ErrUnknown, false},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), false, journal.ErrUnavailable, true},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true, journal.ErrUnknown, false},
		{status.FromContextError(context.Canceled).Err(), true, journal.ErrUnknown, false},
		{rpctypes.ErrGRPCNoLeader, true, journal.ErrUnavailable, true},
		{rpctypes.ErrGRPCLeaderChanged, true, journal.ErrUnknown, false},
		{rpctypes.ErrGRPCTimeout, true, journal.ErrUnknown, false},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, true, journal.ErrUnknown, false},
		{rpctypes.ErrGRPCStopped, true, journal.ErrUnknown, false},
		{rpctypes.ErrGRPCRequestTooManyRequests, true, journal.ErrUnavailable, true},
		{rpctypes.ErrGRPCInvalidAuthToken, true, journal.ErrUnavailable, true},
		{rpctypes.ErrGRPCPermissionDenied, true, journal.ErrUnavailable, false},
		{rpctypes.ErrGRPCTooManyOps, true, errors.ErrUnsupported, false},
		{rpctypes.ErrGRPCNoSpace, true, journal.ErrFull, false},
		{rpctypes.ErrGRPCRequestTooLarge, true, journal.ErrTooLarge, false},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (3 vs. 2)"), true, journal.ErrTooLarge, false},
		{status.Error(codes.ResourceExhausted, "too many pings"), true, journal.ErrUnknown, false},
	} {
		again, err := outcome(test.err, test.sent)
		if !errors.Is(err, test.want) || again != test.again {
			t.Errorf("%v, sent %t: %v, again %t", test.err, test.sent, err, again)
		}
		if unknown := errors.Is(err, journal.ErrUnknown); unknown && errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("%v is written and is not", err)
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v looks like the caller's own", err)
		}
	}
}

func TestPending(t *testing.T) {
	key := pod("a")
	var p pending
	p.init()
	one, two := &put{object: objectOf(t, key, "1")}, &put{object: objectOf(t, key, "2")}
	one.stored, two.stored = one.object.Raw, two.object.Raw
	p.add([]*put{one})
	p.add([]*put{two})
	if o, ok := p.claim(key, &mvccpb.KeyValue{Value: []byte("else"), ModRevision: 5}); ok {
		t.Errorf("claimed %s", o.Raw)
	}
	if o, ok := p.claim(key, &mvccpb.KeyValue{Value: two.stored, ModRevision: 6}); !ok || o != two.object || o.Revision != 6 {
		t.Errorf("claimed %v", o)
	}
	// The same bytes again are another object: this one is the sink's.
	if o, ok := p.claim(key, &mvccpb.KeyValue{Value: two.stored, ModRevision: 7}); ok {
		t.Errorf("claimed %v again", o)
	}
	if !p.taken([]*put{one, two}) || p.taken([]*put{one}) {
		t.Error("does not know what the sink has")
	}
	p.remove([]*put{one}, 9)
	p.remove([]*put{two}, 9)
	if one.object.Revision != 9 || two.object.Revision != 6 || len(p.puts) != 0 {
		t.Errorf("revisions %d and %d, %d keys left", one.object.Revision, two.object.Revision, len(p.puts))
	}
}

func TestPosition(t *testing.T) {
	var p position
	p.init()
	p.advance(5)
	if p.wait(5, true) != nil || p.wanted() {
		t.Error("waits for what is there")
	}
	quiet, asks := p.wait(7, false), p.wait(9, true)
	select {
	case <-p.asked:
	default:
		t.Error("the progress was not requested")
	}
	p.advance(6)
	p.advance(3)
	if p.now() != 6 || !p.wanted() {
		t.Errorf("at %d, wanted %t", p.now(), p.wanted())
	}
	p.advance(8)
	<-quiet.done
	select {
	case <-asks.done:
		t.Error("done too early")
	default:
	}
	p.leave(asks)
	if p.wanted() {
		t.Error("progress is wanted without a waiter")
	}
	asks = p.wait(9, true)
	p.advance(object.Revision(20))
	<-asks.done
}
