package etcd

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/apimachinery/pkg/util/version"
)

// oldest is the oldest etcd whose watches can be relied on. Those before lose events
// after a compaction (etcd-io/etcd#17529), and do not answer how far a new watch
// has come (#17507); before 3.5.8 that answer may run ahead of events (#15220).
const oldest = "3.5.13"

// checkVersion returns an error if a member is older than that. One that does not say
// what it is is taken.
func (l *link) checkVersion(ctx context.Context) error {
	status, err := l.maintenance.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil
	}
	v, err := version.ParseSemantic(status.Version)
	if err == nil && v.LessThan(version.MustParseSemantic(oldest)) {
		return &unusableError{fmt.Sprintf("etcd is of version %s, and has to be %s or newer", status.Version, oldest)}
	}
	return nil
}
