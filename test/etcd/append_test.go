package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Append is one transaction.
func (j *sketch) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	end, err := j.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var ifs []clientv3.Cmp
	var thens, elses []clientv3.Op
	var expected []journal.Guard
	resources := map[schema.GroupResource]bool{}
	expect := func(g journal.Guard) {
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(path(g.Key)), "=", int64(g.Revision)))
		elses = append(elses, clientv3.OpGet(path(g.Key), clientv3.WithKeysOnly()))
		expected = append(expected, g)
	}
	for _, e := range b.Entries {
		if resources[e.Key.Resource] {
			return 0, fmt.Errorf("batch writes two %s: %w", e.Key.Resource, errors.ErrUnsupported)
		}
		resources[e.Key.Resource] = true
		expect(journal.Guard{Key: e.Key, Revision: e.Prev})
		if e.Object != nil {
			thens = append(thens, clientv3.OpPut(path(e.Key), encode(e.Object)))
		} else {
			thens = append(thens, clientv3.OpDelete(path(e.Key)))
		}
	}
	for _, g := range b.Guards {
		expect(g)
	}
	j.mu.Lock()
	failed := j.mu.failed
	j.mu.Unlock()
	if failed != nil {
		return 0, fmt.Errorf("%w: %w", journal.ErrUnavailable, failed)
	}
	response, err := j.client.Txn(context.WithoutCancel(ctx)).If(ifs...).Then(thens...).Else(elses...).Commit()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	if !response.Succeeded {
		return 0, j.conflict(response, expected, len(b.Entries))
	}
	revision := object.Revision(response.Header.Revision)
	if err := j.wait(func() bool { return j.mu.applied >= revision }); err != nil {
		return 0, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	for _, e := range b.Entries {
		if e.Object != nil {
			e.Object.Revision = revision
		}
	}
	return revision, nil
}

// conflict finds what did not hold, and waits until the sink knows it too.
func (j *sketch) conflict(response *clientv3.TxnResponse, expected []journal.Guard, entries int) error {
	for i, g := range expected {
		var at object.Revision
		if kvs := response.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			at = object.Revision(kvs[0].ModRevision)
		}
		if at == g.Revision {
			continue
		}
		err := j.wait(func() bool {
			if at == 0 {
				return j.sink.Revision(g.Key) != g.Revision
			}
			return j.mu.applied >= at
		})
		if err != nil {
			return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
		}
		return &journal.ConflictError{Key: g.Key, Want: g.Revision, Current: at, Guard: i >= entries}
	}
	return errors.New("a transaction failed for no reason")
}
