package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A record is the value of an r key:
//
//	version   byte    recordVersion
//	flags     byte    1 the key is deleted; 2 there is a time; 4 raw is sealed
//	schema    8 bytes little-endian fingerprint of the schema
//	previous  uvarint the revision that this one replaces; 0 for none
//	written   varint  nanoseconds since 1970; only if flagged
//	namespace uvarint length, bytes
//	name      uvarint length, bytes
//	raw       the rest: the object, canonical JSON, or what a Sealer has made of it;
//	          nothing if deleted
type record struct {
	resource        schema.GroupResource // of the key, as is revision
	revision        object.Revision
	previous        object.Revision
	deleted, sealed bool
	schema          uint64
	written         time.Time
	namespace, name []byte // both part of the value, as is raw
	raw             []byte
}

const (
	recordVersion = 1

	flagDeleted = 1 << 0
	flagWritten = 1 << 1
	flagSealed  = 1 << 2
	flagsKnown  = flagDeleted | flagWritten | flagSealed
)

var (
	errRecord   = errors.New("malformed record")
	errNoSealer = fmt.Errorf("is encrypted: the settings of encryption at rest that it was written with are needed to read it (%w)", journal.ErrUnopened)
)

// parseRecord reads a record without copying: it lives as long as value does.
func parseRecord(value []byte) (r record, err error) {
	if len(value) < 10 {
		return r, errRecord
	}
	flags := value[1]
	if value[0] != recordVersion || flags&^flagsKnown != 0 {
		return r, fmt.Errorf("record of version %d.%d is not supported: %w", value[0], flags, errFormat)
	}
	r.deleted, r.sealed = flags&flagDeleted != 0, flags&flagSealed != 0
	r.schema = binary.LittleEndian.Uint64(value[2:])
	rest := value[10:]

	previous, n := binary.Uvarint(rest)
	if n <= 0 || int64(previous) < 0 {
		return r, errRecord
	}
	r.previous, rest = object.Revision(previous), rest[n:]
	if flags&flagWritten != 0 {
		nanos, n := binary.Varint(rest)
		if n <= 0 {
			return r, errRecord
		}
		r.written, rest = time.Unix(0, nanos).UTC(), rest[n:]
	}
	for _, field := range []*[]byte{&r.namespace, &r.name} {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return r, errRecord
		}
		*field, rest = rest[n:n+int(size)], rest[n+int(size):]
	}
	r.raw = rest
	return r, nil
}

// own gives the record bytes of its own for the object.
func (r *record) own() *record {
	r.raw = bytes.Clone(r.raw)
	return r
}

// key is the key of the object.
func (r *record) key() object.Key {
	return object.Key{Resource: r.resource, Namespace: string(r.namespace), Name: string(r.name)}
}

// decoder makes entries of records. The object keeps the bytes of a record; the names
// are copied.
type decoder struct {
	sealer    journal.Sealer
	namespace string // read last, so that not every object has a copy
}

func (d *decoder) entry(r *record) (e journal.Entry, err error) {
	if d.namespace != string(r.namespace) {
		d.namespace = string(r.namespace)
	}
	key := object.Key{Resource: r.resource, Namespace: d.namespace, Name: string(r.name)}
	e = journal.Entry{Key: key, Prev: r.previous, Revision: r.revision}
	if !r.deleted {
		e.Object, err = d.object(key, r)
	}
	return e, err
}

func (d *decoder) object(key object.Key, r *record) (*object.Object, error) {
	raw, stale, err := r.raw, false, error(nil)
	switch {
	case d.sealer != nil:
		raw, stale, err = d.sealer.Open(key, raw)
	case r.sealed:
		err = errNoSealer
	}
	if err != nil {
		return nil, fmt.Errorf("%s at revision %d: %w", key, r.revision, err)
	}
	o, err := object.Parse(key, raw, r.schema, r.written)
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", r.revision, err)
	}
	o.Revision, o.Stale = r.revision, stale
	return o, nil
}

// size returns the size of the record for limits on the history, as journal.Entry defines it.
func (r *record) size() int64 {
	e := journal.Entry{}
	return int64(e.Size() + len(r.namespace) + len(r.name) + len(r.raw))
}

// writer encodes entries. Its buffer is used again for each of them.
type writer struct {
	sealer journal.Sealer
	buf    []byte
}

func (w *writer) put(batch *pebble.Batch, e *journal.Entry) error {
	b := append(w.buf[:0], recordVersion, 0)
	var o object.Object
	if e.Object == nil {
		b[1] |= flagDeleted
	} else {
		o.Schema, o.Written, o.Raw = e.Object.Schema, e.Object.Written, e.Object.Raw
	}
	if w.sealer != nil && e.Object != nil {
		sealed, err := w.sealer.Seal(e.Key, o.Raw)
		if err != nil {
			return fmt.Errorf("encrypt %s: %w", e.Key, err)
		}
		if !bytes.Equal(sealed, o.Raw) {
			b[1] |= flagSealed
			o.Raw = sealed
		}
	}
	b = binary.LittleEndian.AppendUint64(b, o.Schema)
	b = binary.AppendUvarint(b, uint64(e.Prev))
	if !o.Written.IsZero() {
		b[1] |= flagWritten
		b = binary.AppendVarint(b, o.Written.UnixNano())
	}
	b = binary.AppendUvarint(b, uint64(len(e.Key.Namespace)))
	b = append(b, e.Key.Namespace...)
	b = binary.AppendUvarint(b, uint64(len(e.Key.Name)))
	b = append(b, e.Key.Name...)
	w.buf = b

	resource := e.Key.Resource
	op := batch.SetDeferred(len(resource.Group)+len(resource.Resource)+recordKeyExtra, len(b)+len(o.Raw))
	appendRecordKey(op.Key[:0], resource, e.Revision)
	copy(op.Value[copy(op.Value, b):], o.Raw)
	return op.Finish()
}

func batchSize(entries []journal.Entry) int {
	n := 64
	for i := range entries {
		e := &entries[i]
		n += e.Size() + len(e.Key.Resource.Group) + len(e.Key.Resource.Resource) + 32
	}
	return n
}

// recordKeyExtra is the length of a record's key without group and resource: r, the
// slash, the zero byte and the revision.
const recordKeyExtra = 1 + 1 + 1 + 8

func appendRecordKey(dst []byte, resource schema.GroupResource, rev object.Revision) []byte {
	dst = append(dst, 'r')
	dst = append(dst, resource.Group...)
	dst = append(dst, '/')
	dst = append(dst, resource.Resource...)
	dst = append(dst, 0)
	return binary.BigEndian.AppendUint64(dst, uint64(rev))
}

// splitRecordKey returns what stands in front of the revision, and the revision.
func splitRecordKey(key []byte) (prefix []byte, rev object.Revision, err error) {
	n := len(key) - 8
	if n < 3 || key[0] != 'r' || key[n-1] != 0 {
		return nil, 0, fmt.Errorf("malformed key %q", key)
	}
	return key[:n], object.Revision(binary.BigEndian.Uint64(key[n:])), nil
}

// resourceOf reads the resource from what stands in front of a revision.
func resourceOf(prefix []byte) (schema.GroupResource, error) {
	group, resource, ok := strings.Cut(string(prefix[1:len(prefix)-1]), "/")
	if !ok {
		return schema.GroupResource{}, fmt.Errorf("malformed key %q", prefix)
	}
	return schema.GroupResource{Group: group, Resource: resource}, nil
}

// keyReader reads the keys of records in order.
type keyReader struct {
	prefix   []byte // of the resource that is being read
	resource schema.GroupResource
}

// next returns the resource and revision of a key, and whether the resource is
// another one than before.
func (k *keyReader) next(key []byte) (rev object.Revision, fresh bool, err error) {
	prefix, rev, err := splitRecordKey(key)
	if err != nil {
		return 0, false, err
	}
	if fresh = !bytes.Equal(prefix, k.prefix); fresh {
		if k.resource, err = resourceOf(prefix); err != nil {
			return 0, false, err
		}
		k.prefix = append(k.prefix[:0], prefix...)
	}
	return rev, fresh, nil
}
