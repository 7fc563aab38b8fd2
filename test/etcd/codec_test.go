package etcd

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	prefix  = "/kapok/objects/"
	markKey = "/kapok/compacted"
	all     = "/kapok/"
)

func open(client *clientv3.Client) *sketch {
	j := &sketch{client: client}
	j.mu.changed = make(chan struct{})
	return j
}

func path(k object.Key) string {
	return resourcePath(k.Resource) + k.Namespace + "/" + k.Name
}

func resourcePath(r schema.GroupResource) string { return prefix + r.Group + "/" + r.Resource + "/" }

func keyOf(path string) (object.Key, error) {
	parts := strings.SplitN(strings.TrimPrefix(path, prefix), "/", 4)
	if len(parts) < 4 {
		return object.Key{}, fmt.Errorf("malformed key %q", path)
	}
	return object.Key{Resource: schema.GroupResource{Group: parts[0], Resource: parts[1]}, Namespace: parts[2], Name: parts[3]}, nil
}

func encode(o *object.Object) string {
	b := binary.BigEndian.AppendUint64(nil, o.Schema)
	b = binary.BigEndian.AppendUint64(b, uint64(o.Written.UnixNano()))
	return string(append(b, o.Raw...))
}

// decode returns the object of a pair; nil for none.
func decode(kv *mvccpb.KeyValue) (*object.Object, error) {
	if kv == nil {
		return nil, nil
	}
	key, err := keyOf(string(kv.Key))
	if err != nil {
		return nil, err
	}
	if len(kv.Value) < 16 {
		return nil, fmt.Errorf("malformed value of %s", key)
	}
	written := time.Unix(0, int64(binary.BigEndian.Uint64(kv.Value[8:]))).UTC()
	o, err := object.Parse(key, kv.Value[16:], binary.BigEndian.Uint64(kv.Value), written)
	if err != nil {
		return nil, err
	}
	o.Revision = object.Revision(kv.ModRevision)
	return o, nil
}
