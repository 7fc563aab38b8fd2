package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Shared returns the secret that all replicas have under a name. Who comes first
// makes it. It is sealed as the Secret of that name in the namespace kapok would
// be. It can be called as soon as the journal is open.
func (j *Journal) Shared(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	release, err := j.use()
	if err != nil {
		return nil, err
	}
	defer release()
	secret, err := j.shared(ctx, name, make)
	if err != nil {
		return nil, fmt.Errorf("secret %s in etcd: %w", name, err)
	}
	return secret, nil
}

func (j *Journal) shared(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	path := j.values.sharedKey(name)
	key := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "kapok", Name: name}
	ctx, cancel := context.WithTimeout(ctx, j.opts.DialTimeout)
	defer cancel()
	var made []byte
	for {
		there, err := j.read(ctx, &pb.RangeRequest{Key: path})
		if err != nil {
			return nil, err
		}
		if len(there.Kvs) > 0 {
			secret, _, err := j.values.open(key, there.Kvs[0].Value)
			return secret, err
		}
		if made == nil {
			if made, err = make(); err == nil {
				made, err = j.values.seal(key, made)
			}
			if err != nil {
				return nil, err
			}
		}
		_, err = j.send(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: path, Result: pb.Compare_EQUAL, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: path, Value: made}}}},
		})
		if err != nil && !errors.Is(err, journal.ErrUnknown) { // what is unknown is found out
			return nil, err
		}
	}
}
