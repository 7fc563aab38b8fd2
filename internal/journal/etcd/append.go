package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Append implements [journal.Journal]. The journal owns the objects of the batch from the call on,
// even if it returns an error.
func (j *Journal) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	release, err := j.use()
	if err != nil {
		return 0, err
	}
	defer release()
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t, err := j.transaction(&b)
	if err != nil {
		return 0, err
	}
	j.pending.add(t.puts)
	revision, err := j.commit(ctx, &b, t)
	j.pending.remove(t.puts, revision)
	return revision, err
}

// transaction is a batch in the form of etcd's requests.
type transaction struct {
	request *pb.TxnRequest
	puts    []*put
	expect  []journal.Guard // in the order of the comparisons: those of entries, then guards
	entries int
}

func (j *Journal) transaction(b *journal.Batch) (*transaction, error) {
	t := &transaction{request: &pb.TxnRequest{}, entries: len(b.Entries)}
	for i := range b.Entries {
		e := &b.Entries[i]
		for k := range i {
			if b.Entries[k].Key.Resource == e.Key.Resource {
				return nil, fmt.Errorf("batch writes two %s: %w", e.Key.Resource, errors.ErrUnsupported)
			}
		}
		path := j.values.path(e.Key)
		t.expectAt(path, journal.Guard{Key: e.Key, Revision: e.Prev})
		if e.Object == nil {
			t.request.Success = append(t.request.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: path}}})
			continue
		}
		stored, err := j.values.seal(e.Key, e.Object.Raw)
		if err != nil {
			return nil, err
		}
		t.puts = append(t.puts, &put{object: e.Object, stored: stored})
		t.request.Success = append(t.request.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: path, Value: stored}}})
	}
	for _, g := range b.Guards {
		t.expectAt(j.values.path(g.Key), g)
	}
	return t, nil
}

// expectAt adds a comparison, and a read of the key for the case that the comparison fails.
func (t *transaction) expectAt(path []byte, g journal.Guard) {
	t.request.Compare = append(t.request.Compare, &pb.Compare{
		Key: path, Result: pb.Compare_EQUAL, Target: pb.Compare_MOD,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(g.Revision)},
	})
	t.request.Failure = append(t.request.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
		RequestRange: &pb.RangeRequest{Key: path, KeysOnly: true}}})
	t.expect = append(t.expect, g)
}

// commit sends a transaction and waits until the sink includes its writes.
func (j *Journal) commit(ctx context.Context, b *journal.Batch, t *transaction) (object.Revision, error) {
	rebases, deadline := j.rebases.Load(), time.Now().Add(j.opts.RequestTimeout)
	response, err := j.send(ctx, deadline, t.request)
	// From here on the caller's context no longer cancels the write.
	waiting, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if errors.Is(err, journal.ErrFull) {
		return 0, j.full(waiting, t, rebases, err)
	}
	if err != nil {
		return 0, err
	}
	revision := object.Revision(response.Header.Revision)
	if !response.Succeeded {
		return 0, j.conflict(waiting, t, response)
	}
	if len(t.puts) > 0 {
		j.setFull(false)
	}
	if j.follower.own(revision, b.Entries, t.puts) {
		return revision, nil
	}
	if err := j.await(waiting, revision, false); err != nil {
		return 0, fmt.Errorf("%w: it was committed at revision %d, which this replica has not seen: %v", journal.ErrUnknown, revision, err)
	}
	return revision, nil
}

// send sends a transaction once, and again only if etcd has certainly not accepted it. The caller's
// context cancels it until something has been sent. send looks for a member for at most j.patience.
// It waits for the response until the deadline or until the link is dropped: without a quorum etcd
// does not respond at all, and a slow member still answers probes.
func (j *Journal) send(caller context.Context, deadline time.Time, request *pb.TxnRequest) (*pb.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(caller, j.patience())
	defer cancel()
	var pause pause
	for {
		l, err := j.links.get(ctx)
		if err := caller.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, unavailable(noAnswer(err))
		}
		var sent atomic.Bool
		sending, cancel := context.WithDeadline(context.WithValue(context.WithoutCancel(ctx), sentKey{}, &sent), deadline)
		slow := time.AfterFunc(j.suspectAfter(), l.suspect)
		response, err := l.kv.Txn(clientv3.WithRequireLeader(sending), request)
		slow.Stop()
		cancel()
		if err == nil {
			return response, nil
		}
		again, err := outcome(err, sent.Load())
		if errors.Is(err, journal.ErrUnknown) || again {
			l.suspect()
		}
		if !again {
			return nil, err
		}
		pause.wait(ctx)
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

// outcome translates the error of a transaction into an error of package journal, and reports
// whether a retry may help. sent means that etcd may have received any of it.
func outcome(cause error, sent bool) (again bool, err error) {
	// etcd returns these errors before the transaction reaches the leader, or instead of applying
	// it. ErrNoSpace may be returned for a transaction that was applied: see full.
	switch named := rpctypes.Error(cause); {
	case errors.Is(named, rpctypes.ErrNoSpace):
		return false, fmt.Errorf("%w: %v", journal.ErrFull, brief(cause))
	case errors.Is(named, rpctypes.ErrRequestTooLarge):
		return false, fmt.Errorf("%w: %v", journal.ErrTooLarge, cause)
	case errors.Is(named, rpctypes.ErrNoLeader), // to clients that require one
		errors.Is(named, rpctypes.ErrTooManyRequests),
		errors.Is(named, rpctypes.ErrInvalidAuthToken), // reconnecting gets a new token
		errors.Is(named, rpctypes.ErrUserEmpty),
		errors.Is(named, rpctypes.ErrAuthOldRevision):
		return true, unavailable(cause)
	case errors.Is(named, rpctypes.ErrPermissionDenied):
		return false, unavailable(cause)
	case errors.Is(named, rpctypes.ErrTooManyOps):
		return false, fmt.Errorf("%w: %v", errors.ErrUnsupported, cause)
	}
	switch {
	case !sent:
		return true, unavailable(cause)
	case tooLarge(cause):
		return false, fmt.Errorf("%w: %v", journal.ErrTooLarge, cause)
	}
	return false, fmt.Errorf("%w: %v", journal.ErrUnknown, brief(cause))
}

// full determines the outcome of a transaction that etcd rejected with ErrNoSpace: etcd may detect
// the lack of space while applying it, and then the writes exist. They do not exist if the watch
// has delivered none of them by now.
func (j *Journal) full(ctx context.Context, t *transaction, rebases int64, err error) error {
	j.setFull(true)
	now, unseen := j.headOfEtcd(ctx)
	if unseen == nil {
		unseen = j.await(ctx, now, true)
	}
	if unseen == nil && !j.pending.taken(t.puts) && j.rebases.Load() == rebases {
		return err
	}
	return fmt.Errorf("%w: %v", journal.ErrUnknown, err)
}

// tooLarge reports whether either end of the connection rejected a request because of its size.
// gRPC indicates that only by these words.
func tooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

// conflict finds the comparison that failed, and waits until the sink includes the write that it
// conflicts with.
func (j *Journal) conflict(ctx context.Context, t *transaction, response *pb.TxnResponse) error {
	for i, g := range t.expect {
		var at object.Revision
		if kvs := response.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			at = object.Revision(kvs[0].ModRevision)
		}
		if at == g.Revision {
			continue
		}
		seen := at
		if at == 0 && j.follower.sink.Revision(g.Key) != 0 {
			seen = object.Revision(response.Header.Revision) // deleted at an earlier revision
		}
		if err := j.await(ctx, seen, at == 0); err != nil {
			return fmt.Errorf("%w: %s changed in etcd, and this replica has not received the change yet: %v", journal.ErrUnavailable, g.Key, err)
		}
		if err := j.damagedAt(g.Key); err != nil {
			return err
		}
		return &journal.ConflictError{Key: g.Key, Want: g.Revision, Current: at, Guard: i >= t.entries}
	}
	return unavailable(errors.New("etcd rejected a transaction although all its comparisons hold"))
}

// damagedAt returns an error if the value of a key cannot be read.
func (j *Journal) damagedAt(key object.Key) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at := j.mu.damaged[key]; at > 0 {
		return &journal.DamagedError{
			What:   fmt.Sprintf("the value of %s in etcd at revision %d", j.values.path(key), at),
			Advice: damagedAdvice,
		}
	}
	return nil
}

func (j *Journal) setFull(full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.full = full
}
