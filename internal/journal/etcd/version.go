package etcd

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/apimachinery/pkg/util/version"
)

// oldest is the oldest supported version of etcd. Earlier versions lose watch events after a
// compaction (etcd-io/etcd#17529) and do not report the progress of a new watch (#17507); before
// 3.5.8 the reported progress may be ahead of the events (#15220).
const oldest = "3.5.13"

// checkVersion returns an error if a member is older than that. A member that does not report its
// version is accepted.
func (l *link) checkVersion(ctx context.Context) error {
	status, err := l.maintenance.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil
	}
	v, err := version.ParseSemantic(status.Version)
	if err == nil && v.LessThan(version.MustParseSemantic(oldest)) {
		return &unusableError{fmt.Sprintf("etcd has version %s: must be %s or newer", status.Version, oldest)}
	}
	return nil
}
