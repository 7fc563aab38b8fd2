package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// listing is the content of etcd at one revision.
type listing struct {
	head    object.Revision
	entries []journal.Entry // grouped by resource, in each group ascending by revision
	damaged []damage
}

type damage struct {
	key      object.Key
	revision object.Revision
	err      error
}

// list reads everything, and reports how far it is. It starts again if etcd is compacted meanwhile.
func (j *Journal) list(ctx context.Context, report func(read, total int64)) (listing, error) {
	for {
		var l listing
		head, err := j.scan(ctx, report, func(kv *mvccpb.KeyValue) error {
			if string(kv.Key) == string(j.values.markKey()) {
				j.setMark(kv.ModRevision, kv.Value)
				return nil
			}
			key, ok := j.values.key(kv.Key)
			if !ok {
				return nil
			}
			e := journal.Entry{Key: key, Revision: object.Revision(kv.ModRevision)}
			if e.Object, ok = j.pending.claim(key, kv); !ok {
				var err error
				if e.Object, err = j.values.object(key, kv); err != nil {
					l.damaged = append(l.damaged, damage{key, e.Revision, err})
					return nil
				}
			}
			l.entries = append(l.entries, e)
			return nil
		})
		if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			continue
		}
		l.head = head
		l.sort()
		return l, err
	}
}

// sort sorts the entries of each resource, which are adjacent, by revision.
func (l *listing) sort() {
	for rest := l.entries; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(e journal.Entry) bool { return e.Key.Resource != rest[0].Key.Resource })
		if n < 0 {
			n = len(rest)
		}
		slices.SortFunc(rest[:n], func(a, b journal.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
		rest = rest[n:]
	}
}

// pageKeys is the number of keys per request.
const pageKeys = 500

// unreported is for listings while the server is in use.
func unreported(_, _ int64) {}

// scan reads all keys at one revision in pages and returns that revision.
func (j *Journal) scan(ctx context.Context, report func(read, total int64), visit func(*mvccpb.KeyValue) error) (object.Revision, error) {
	from, to := j.values.all()
	request := &pb.RangeRequest{Key: from, RangeEnd: to, Limit: pageKeys}
	read := int64(0)
	for {
		page, err := j.read(ctx, request)
		if err != nil {
			return 0, err
		}
		if request.Revision == 0 {
			request.Revision = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			if err := visit(kv); err != nil {
				return 0, err
			}
		}
		total := read + page.Count // of the keys from request.Key on
		read += int64(len(page.Kvs))
		report(read, total)
		if !page.More || len(page.Kvs) == 0 {
			return object.Revision(request.Revision), nil
		}
		request.Key = append(slices.Clone(page.Kvs[len(page.Kvs)-1].Key), 0)
	}
}

// read reads from any available member until DialTimeout has passed. The error may be one of
// rpctypes.
func (j *Journal) read(ctx context.Context, request *pb.RangeRequest) (*pb.RangeResponse, error) {
	ctx, cancel := j.bounded(ctx, j.opts.DialTimeout)
	defer cancel()
	var pause pause
	for {
		l, err := j.links.get(ctx)
		if err == nil {
			var response *pb.RangeResponse
			if response, err = l.kv.Range(ctx, request); err == nil {
				return response, nil
			}
			if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
				return nil, err
			}
			l.suspect()
		}
		pause.wait(ctx)
		if ctx.Err() != nil {
			return nil, j.failed(err)
		}
	}
}
