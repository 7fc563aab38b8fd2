package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/klauspost/compress/zstd"
)

// Write writes a snapshot. The objects must be in the order of the format, and none newer than the
// header's revision. After an error, the written bytes are not a valid snapshot.
func Write(w io.Writer, h Header, objects iter.Seq[*object.Object]) error {
	sum := &summing{w: w, hash: sha256.New()}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(sum, "%s%s\n%s\n", magic, version, head); err != nil {
		return err
	}
	z, err := zstd.NewWriter(sum, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowSize))
	if err != nil {
		return err
	}
	writer := writer{z: z, order: order{revision: h.Revision}}
	if err := writer.all(objects); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", sumPrefix, hex.EncodeToString(sum.hash.Sum(nil)))
	return err
}

// writer writes records. It reuses its buffer.
type writer struct {
	z     io.Writer
	order order
	buf   []byte
}

func (w *writer) all(objects iter.Seq[*object.Object]) error {
	for o := range objects {
		if err := w.order.next(o); err != nil {
			return err
		}
		w.buf = appendObject(w.buf[:0], o)
		if _, err := w.z.Write(w.buf); err != nil {
			return err
		}
		if _, err := w.z.Write(o.Raw); err != nil {
			return err
		}
	}
	if err := w.order.end(); err != nil {
		return err
	}
	end := append(w.buf[:0], recordEnd)
	end = binary.AppendUvarint(end, uint64(w.order.objects))
	end = binary.AppendUvarint(end, uint64(w.order.bytes))
	_, err := w.z.Write(end)
	return err
}

// appendObject appends a record except for its last field, the JSON.
func appendObject(b []byte, o *object.Object) []byte {
	b = append(b, recordObject)
	for _, s := range [...]string{o.Key.Resource.Group, o.Key.Resource.Resource, o.Key.Namespace, o.Key.Name} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, uint64(o.Revision))
	b = binary.LittleEndian.AppendUint64(b, o.Schema)
	written := int64(0)
	if !o.Written.IsZero() {
		written = o.Written.UnixNano()
	}
	b = binary.AppendVarint(b, written)
	return binary.AppendUvarint(b, uint64(len(o.Raw)))
}

// summing is a writer that computes the checksum of the written bytes.
type summing struct {
	w    io.Writer
	hash hash.Hash
}

func (s *summing) Write(p []byte) (int, error) {
	s.hash.Write(p)
	return s.w.Write(p)
}
