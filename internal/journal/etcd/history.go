package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// History implements [journal.Journal] with a watch from an older revision.
func (j *Journal) History(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	release, err := j.use()
	if err != nil {
		return nil, err
	}
	defer release()
	if after < j.Compacted() {
		return nil, journal.ErrCompacted
	}
	upTo = min(upTo, j.settled())
	if upTo <= after {
		return nil, nil
	}
	ctx, cancel := j.bounded(ctx, j.opts.DialTimeout)
	defer cancel()
	var pause pause
	for {
		records, err := j.readHistory(ctx, resource, after, upTo, limit)
		var compacted *compactedError
		var damaged *journal.DamagedError
		switch {
		case err == nil:
			return records, nil
		case errors.As(err, &compacted):
			j.setCompacted(compacted.revision)
			return nil, journal.ErrCompacted
		case errors.As(err, &damaged):
			return nil, err
		}
		pause.wait(ctx)
		if ctx.Err() != nil || j.links.err() != nil {
			return nil, j.failed(err)
		}
	}
}

func (j *Journal) readHistory(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	l, err := j.links.get(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The watch starts one revision early: etcd then reports whether it has been compacted behind
	// that revision; otherwise all later events are available.
	from, to := j.values.of(resource)
	s, err := open(ctx, l, &pb.WatchCreateRequest{Key: from, RangeEnd: to, StartRevision: int64(after), PrevKv: true})
	if err != nil {
		return nil, err
	}
	// Progress of the watch of past revisions is requested until it has caught up.
	asking := make(chan struct{})
	defer func() { cancel(); <-asking }()
	go func() {
		defer close(asking)
		askUntil(ctx, s)
	}()
	var records []journal.Record
	for {
		events, reached, err := s.next()
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			revision := object.Revision(event.Kv.ModRevision)
			if revision <= after {
				continue
			}
			if revision > upTo || limit > 0 && len(records) >= limit && revision > records[len(records)-1].Revision {
				return records, nil // of whole revisions: other clients may write several objects in one
			}
			key, ok := j.values.key(event.Kv.Key)
			if !ok || key.Resource != resource {
				continue
			}
			record, err := j.record(key, event)
			if err != nil {
				return nil, err
			}
			records = append(records, record)
		}
		if reached >= upTo {
			return records, nil
		}
	}
}

func askUntil(ctx context.Context, s *stream) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for s.ask() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (j *Journal) record(key object.Key, event *mvccpb.Event) (r journal.Record, err error) {
	r.Key, r.Revision = key, object.Revision(event.Kv.ModRevision)
	if event.Type == mvccpb.Event_PUT {
		if r.Object, err = j.values.object(key, event.Kv); err != nil {
			return r, err
		}
		if event.Kv.CreateRevision == event.Kv.ModRevision {
			return r, nil
		}
	}
	if event.PrevKv == nil {
		// Only a compaction in the meantime removes the previous value.
		return r, &compactedError{r.Revision - 1}
	}
	if r.Replaced, err = j.values.object(key, event.PrevKv); err != nil {
		return r, fmt.Errorf("read the value replaced at revision %d: %w", r.Revision, err)
	}
	r.Prev = r.Replaced.Revision
	return r, nil
}
