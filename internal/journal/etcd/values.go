package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// values translates between keys and values of etcd and objects.
type values struct {
	prefix string
	paths  *object.Paths
	sealer journal.Sealer // may be nil
	decode func([]byte) ([]byte, error)
}

func (v *values) path(k object.Key) []byte { return []byte(v.prefix + v.paths.Of(k)) }

// key returns the object key of a path in etcd, or false if the path does not belong to an object.
func (v *values) key(path []byte) (object.Key, bool) {
	k, err := v.paths.Parse(string(path[len(v.prefix):]))
	return k, err == nil
}

// markKey is not the path of an object: no kind is stored under kapok.
func (v *values) markKey() []byte              { return v.sharedKey("compacted") }
func (v *values) sharedKey(name string) []byte { return []byte(v.prefix + "/kapok/" + name) }

// all returns the range of all keys.
func (v *values) all() (from, to []byte) { return span(v.prefix + "/") }

// of returns the range of the keys of a resource.
func (v *values) of(r schema.GroupResource) (from, to []byte) {
	return span(v.prefix + v.paths.Resource(r))
}

// span returns the range of keys with a prefix, which ends with a slash.
func span(prefix string) (from, to []byte) {
	from, to = []byte(prefix), []byte(prefix)
	to[len(to)-1]++
	return from, to
}

// seal returns the stored form of a value.
func (v *values) seal(key object.Key, raw []byte) ([]byte, error) {
	if v.sealer == nil {
		return raw, nil
	}
	stored, err := v.sealer.Seal(key, raw)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", key, err)
	}
	return stored, nil
}

// open is the inverse of seal.
func (v *values) open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	if v.sealer == nil && bytes.HasPrefix(stored, sealedMark) {
		return nil, false, fmt.Errorf("is encrypted: start the server with the EncryptionConfiguration that it was written with (%w)", journal.ErrUnopened)
	}
	if v.sealer == nil {
		return stored, false, nil
	}
	return v.sealer.Open(key, stored)
}

const damagedAdvice = "write the key again or delete it with etcdctl, or restore a backup"

// sealedMark is the prefix of every value that kube-apiserver has encrypted.
var sealedMark = []byte("k8s:enc:")

// protobufMark is the prefix of kube-apiserver's protobuf values.
var protobufMark = []byte("k8s\x00")

// object returns the object of a pair that another process wrote.
func (v *values) object(key object.Key, kv *mvccpb.KeyValue) (*object.Object, error) {
	raw, stale, err := v.open(key, kv.Value)
	if err == nil && bytes.HasPrefix(raw, protobufMark) {
		raw, err = v.decode(raw)
	}
	var o *object.Object
	if err == nil {
		o, err = object.Parse(key, raw, 0, time.Now())
	}
	switch {
	case errors.Is(err, journal.ErrUnopened):
		return nil, fmt.Errorf("%s in etcd at revision %d: %w", kv.Key, kv.ModRevision, err)
	case err != nil:
		return nil, &journal.DamagedError{
			What:   fmt.Sprintf("the value of %s in etcd at revision %d", kv.Key, kv.ModRevision),
			Advice: damagedAdvice,
			Err:    err,
		}
	}
	o.Revision, o.Stale = object.Revision(kv.ModRevision), stale
	return o, nil
}
