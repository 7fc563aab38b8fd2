package etcd

import (
	"context"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// History watches from an older revision.
func (j *sketch) History(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	end, err := j.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if after < j.Compacted() {
		return nil, journal.ErrCompacted
	}
	j.mu.Lock()
	upTo = min(upTo, j.mu.applied)
	j.mu.Unlock()
	if upTo <= after {
		return nil, nil
	}
	records, err := j.read(ctx, resource, after, upTo, limit)
	if err != nil {
		return nil, err
	}
	// The mark is written before etcd compacts: if it has not moved, nothing that
	// was read had been compacted.
	mark, err := j.client.Get(ctx, markKey)
	if err != nil {
		return nil, err
	}
	for _, kv := range mark.Kvs {
		if err := j.setMark(kv); err != nil {
			return nil, err
		}
	}
	if after < j.Compacted() {
		return nil, journal.ErrCompacted
	}
	return records, nil
}

func (j *sketch) read(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	// The metadata gives the watch a stream of its own: it alone is asked for its
	// progress.
	ctx = metadata.AppendToOutgoingContext(ctx, "kapok-history", strconv.FormatInt(j.streams.Add(1), 10))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := j.client.Watch(ctx, resourcePath(resource), clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(int64(after)+1))
	ask := time.NewTicker(10 * time.Millisecond)
	defer ask.Stop()
	var records []journal.Record
	for {
		select {
		case response, ok := <-responses:
			if !ok {
				return nil, ctx.Err()
			}
			if response.CompactRevision > 0 {
				return nil, journal.ErrCompacted
			}
			if err := response.Err(); err != nil {
				return nil, err
			}
			for _, event := range response.Events {
				if event.Kv.ModRevision > int64(upTo) || limit > 0 && len(records) == limit {
					return records, nil
				}
				r, err := recordOf(event)
				if err != nil {
					return nil, err
				}
				records = append(records, r)
			}
			if response.IsProgressNotify() && response.Header.Revision >= int64(upTo) {
				return records, nil
			}
		case <-ask.C:
			if err := j.client.RequestProgress(ctx); err != nil {
				return nil, err
			}
		}
	}
}

func recordOf(event *clientv3.Event) (journal.Record, error) {
	e, err := entryOf(event)
	if err != nil {
		return journal.Record{}, err
	}
	r := journal.Record{Entry: e}
	if r.Replaced, err = decode(event.PrevKv); r.Replaced != nil {
		r.Prev = r.Replaced.Revision
	}
	return r, err
}

func (j *sketch) Head() (object.Revision, int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.head, j.mu.bytes
}

func (j *sketch) Compacted() object.Revision {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.compacted
}

// Compact writes the mark, unless another replica has moved it, and then lets etcd
// forget.
func (j *sketch) Compact(ctx context.Context, upTo object.Revision) error {
	end, err := j.begin()
	if err != nil {
		return err
	}
	defer end()
	head, _ := j.Head()
	upTo = min(upTo, head)
	j.mu.Lock()
	compacted, mark := j.mu.compacted, j.mu.mark
	j.mu.Unlock()
	if upTo <= compacted {
		return nil
	}
	put, err := j.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(markKey), "=", mark)).
		Then(clientv3.OpPut(markKey, strconv.FormatInt(int64(upTo), 10))).Commit()
	if err != nil || !put.Succeeded {
		return err
	}
	if err := j.wait(func() bool { return j.mu.compacted >= upTo }); err != nil {
		return err
	}
	_, err = j.client.Compact(ctx, int64(upTo), clientv3.WithCompactPhysical())
	return err
}
