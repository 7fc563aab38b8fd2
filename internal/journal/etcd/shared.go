package etcd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Shared returns the secret that all replicas share under a name. The first replica creates it with
// make. It is encrypted like a Secret of that name in the namespace kapok. It can be called after
// Open and before Recover.
func (j *Journal) Shared(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	release, err := j.use()
	if err != nil {
		return nil, err
	}
	defer release()
	if string(j.values.sharedKey(name)) == string(j.values.markKey()) {
		return nil, fmt.Errorf("secret %s in etcd: the name is reserved", name)
	}
	secret, err := j.shared(ctx, name, make)
	if err != nil {
		return nil, fmt.Errorf("secret %s in etcd: %w", name, err)
	}
	return secret, nil
}

func (j *Journal) shared(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	path := j.values.sharedKey(name)
	key := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "kapok", Name: name}
	ctx, cancel := j.bounded(ctx, j.opts.DialTimeout)
	defer cancel()
	var made []byte
	for {
		there, err := j.read(ctx, &pb.RangeRequest{Key: path})
		if err != nil {
			return nil, err
		}
		if len(there.Kvs) > 0 {
			raw, _, err := j.values.open(key, there.Kvs[0].Value)
			if err != nil {
				return nil, err
			}
			return unwrap(raw)
		}
		if made == nil {
			if made, err = make(); err == nil {
				made, err = wrap(key, made)
			}
			if err == nil {
				made, err = j.values.seal(key, made)
			}
			if err != nil {
				return nil, err
			}
		}
		_, err = j.send(ctx, time.Now().Add(j.opts.RequestTimeout), &pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: path, Result: pb.Compare_EQUAL, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: path, Value: made}}}},
		})
		if err != nil && !errors.Is(err, journal.ErrUnknown) { // an unknown outcome is resolved by reading
			return nil, err
		}
	}
}

// wrap returns a Secret that holds data: a Sealer may require the object that belongs to the key.
func wrap(key object.Key, data []byte) ([]byte, error) {
	return object.AppendJSON(nil, map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace, "uid": key.Name},
		"data":     map[string]any{sharedData: base64.StdEncoding.EncodeToString(data)},
	})
}

// sharedData is the key of the value in the data of that Secret.
const sharedData = "value"

func unwrap(raw []byte) ([]byte, error) {
	var secret struct{ Data map[string][]byte }
	if err := json.Unmarshal(raw, &secret); err != nil {
		return nil, err
	}
	if len(secret.Data[sharedData]) == 0 {
		return nil, errors.New("its data is empty")
	}
	return secret.Data[sharedData], nil
}
