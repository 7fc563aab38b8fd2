package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Check implements [journal.Journal]: it reads and decodes every object.
func (j *Journal) Check(ctx context.Context) (journal.Report, error) {
	release, err := j.use()
	if err != nil {
		return journal.Report{}, err
	}
	defer release()
	var report journal.Report
	report.Head, err = j.scan(ctx, unreported, func(kv *mvccpb.KeyValue) error {
		key, ok := j.values.key(kv.Key)
		if !ok {
			return nil
		}
		report.Records++
		report.Bytes += int64(len(kv.Key) + len(kv.Value))
		if _, err := j.values.object(key, kv); err != nil {
			report.Problems = append(report.Problems, journal.Problem{Key: key, Revision: object.Revision(kv.ModRevision), Text: err.Error()})
			return nil
		}
		report.Objects++
		return nil
	})
	report.Compacted = j.Compacted()
	if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		err = errors.New("etcd was compacted while it was read; try again")
	}
	if err != nil {
		return report, fmt.Errorf("check journal under %s: %w", j.opts.Prefix, err)
	}
	return report, nil
}

// lookForSpace checks whether an etcd that was out of space accepts writes again.
func (j *Journal) lookForSpace(ctx context.Context, l *link) {
	j.mu.Lock()
	full := j.mu.full
	j.mu.Unlock()
	if !full {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, j.probeTimeout())
	defer cancel()
	alarms, err := l.client.AlarmList(ctx)
	if err != nil {
		return // checked again later
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			return
		}
	}
	j.setFull(false)
}
