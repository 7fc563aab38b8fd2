package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Compact implements [journal.Journal]. It writes the mark, unless another replica has moved it,
// and then compacts etcd.
func (j *Journal) Compact(ctx context.Context, upTo object.Revision) error {
	release, err := j.use()
	if err != nil {
		return err
	}
	defer release()
	j.compacting.Lock()
	defer j.compacting.Unlock()
	j.mu.Lock()
	upTo = min(upTo, j.mu.head)
	compacted, mark := j.mu.compacted, j.mu.mark
	j.mu.Unlock()
	if upTo <= compacted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.opts.RequestTimeout)
	defer cancel()
	if err := j.compact(ctx, upTo, mark); err != nil {
		return fmt.Errorf("compact etcd up to revision %d: %w", upTo, err)
	}
	return nil
}

func (j *Journal) compact(ctx context.Context, upTo object.Revision, mark int64) error {
	key := j.values.markKey()
	deadline := time.Now().Add(j.opts.RequestTimeout)
	response, err := j.send(ctx, deadline, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: key, Result: pb.Compare_EQUAL, Target: pb.Compare_MOD,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: mark},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: key, Value: []byte(upTo.String())},
		}}},
	})
	if err != nil || !response.Succeeded {
		return err
	}
	if err := j.await(ctx, object.Revision(response.Header.Revision), false); err != nil {
		return unavailable(err)
	}
	l, err := j.links.get(ctx)
	if err != nil {
		return unavailable(err)
	}
	_, err = l.kv.Compact(ctx, &pb.CompactionRequest{Revision: int64(upTo)})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		return nil // another replica has moved it
	}
	return err
}

// setMark records the revision up to which the replicas have agreed to compact. The value is empty
// if the mark was deleted from etcd.
func (j *Journal) setMark(revision int64, value []byte) {
	compacted, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		compacted = 0
		if len(value) > 0 {
			j.log.Error("cannot read the compaction mark in etcd; it will be overwritten", "error", err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.mark = revision
	j.mu.compacted = max(j.mu.compacted, object.Revision(compacted))
}

func (j *Journal) setCompacted(upTo object.Revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.compacted = max(j.mu.compacted, upTo)
}

// findCompacted determines whether, and up to which revision, etcd was compacted by a client that
// does not write the mark.
func (j *Journal) findCompacted(ctx context.Context) error {
	readable := func(at object.Revision) (bool, error) {
		_, err := j.read(ctx, &pb.RangeRequest{Key: j.values.markKey(), Revision: int64(max(at, 1)), KeysOnly: true})
		if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			return false, nil
		}
		return err == nil, err
	}
	low := j.Compacted()
	if ok, err := readable(low); ok || err != nil {
		return err
	}
	head, err := j.headOfEtcd(ctx)
	if err != nil {
		return err
	}
	for high := head; low+1 < high; { // invariant: low is not readable, high is
		middle := low + (high-low)/2
		switch ok, err := readable(middle); {
		case err != nil:
			return err
		case ok:
			high = middle
		default:
			low = middle
		}
	}
	j.setCompacted(low + 1)
	return nil
}
