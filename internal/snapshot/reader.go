package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/klauspost/compress/zstd"
)

// Reader reads a snapshot. It must not be used concurrently.
type Reader struct {
	header Header
	file   io.ReadSeeker
	body   int64 // offset of the records
	end    int64 // offset of the line with the checksum, after the records
}

// Open reads a whole file and verifies its checksum. The caller must close the file after the last
// use of the Reader.
func Open(file io.ReadSeeker) (*Reader, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, end: size - int64(sumLength)}
	lines, err := r.begin()
	if err != nil {
		return nil, err
	}
	if r.body = int64(len(lines)); r.body > r.end {
		return nil, ErrTruncated
	}
	if err := r.checkSum(); err != nil {
		return nil, err
	}
	// The checksum is valid, so invalid content was written that way.
	_, head, _ := bytes.Cut(lines, []byte("\n"))
	if err := json.Unmarshal(head, &r.header); err != nil {
		return nil, fmt.Errorf("%w: header: %v", ErrDamaged, err)
	}
	if r.header.Revision < 0 {
		return nil, fmt.Errorf("%w: header: revision %d", ErrDamaged, r.header.Revision)
	}
	return r, nil
}

// Header returns the header of the snapshot.
func (r *Reader) Header() Header { return r.header }

// Objects iterates over the objects of the snapshot, each time from the first one. It ends at the
// first error. An iteration without an error has read all records.
func (r *Reader) Objects() iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		d, err := r.decode()
		if err != nil {
			yield(nil, err)
			return
		}
		defer d.z.Close()
		for {
			o, err := d.next()
			if err != nil {
				err = fmt.Errorf("%w: after %d objects: %w", ErrDamaged, d.order.objects, err)
			}
			if o == nil && err == nil || !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// begin returns the first two lines of a snapshot.
func (r *Reader) begin() ([]byte, error) {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	start := make([]byte, len(magic)+8+maxHeader)
	n, err := io.ReadFull(r.file, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	start = start[:n]
	first, rest, ok := bytes.Cut(start, []byte("\n"))
	found, is := strings.CutPrefix(string(first), magic)
	switch {
	case !ok && strings.HasPrefix(magic+version+"\n", string(start)):
		return nil, ErrTruncated
	case !ok || !is:
		return nil, ErrForeign
	case found != version && !number(found):
		return nil, ErrForeign
	case found != version:
		return nil, fmt.Errorf("%w: v%s, the newest supported one is v%s", ErrNewer, found, version)
	}
	head := bytes.IndexByte(rest, '\n')
	if head < 0 && n == cap(start) {
		return nil, fmt.Errorf("%w: header has no end", ErrDamaged)
	}
	if head < 0 {
		return nil, ErrTruncated
	}
	return start[:len(first)+1+head+1], nil
}

func number(s string) bool {
	return s != "" && len(s) < 8 && strings.Trim(s, "0123456789") == ""
}

// checkSum compares the checksum in the last line with that of all preceding bytes.
func (r *Reader) checkSum() error {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, r.file, r.end); err != nil {
		return err
	}
	line := make([]byte, sumLength)
	if _, err := io.ReadFull(r.file, line); err != nil {
		return err
	}
	want := sumPrefix + hex.EncodeToString(hash.Sum(nil)) + "\n"
	switch {
	case string(line) == want:
		return nil
	case !bytes.HasPrefix(line, []byte(sumPrefix)):
		return ErrTruncated
	}
	return fmt.Errorf("%w: its checksum does not match", ErrDamaged)
}

// decode starts to read the records.
func (r *Reader) decode() (*decoder, error) {
	if _, err := r.file.Seek(r.body, io.SeekStart); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(io.LimitReader(r.file, r.end-r.body),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowSize))
	if err != nil {
		return nil, err
	}
	return &decoder{z: z, in: bufio.NewReaderSize(z, 64<<10), order: order{revision: r.header.Revision}}, nil
}

// decoder reads records.
type decoder struct {
	z     *zstd.Decoder
	in    *bufio.Reader
	order order
	buf   []byte
}

var errEnd = errors.New("its last record does not match the records before it")

// next returns the next object, or nil at the end.
func (d *decoder) next() (*object.Object, error) {
	kind, err := d.in.ReadByte()
	if err != nil {
		return nil, cut(err)
	}
	switch kind {
	case recordObject:
		return d.object()
	case recordEnd:
		return nil, d.end()
	}
	return nil, fmt.Errorf("unknown record kind %d", kind)
}

func (d *decoder) object() (*object.Object, error) {
	last := &d.order.last
	var key object.Key
	for _, field := range [...]struct {
		to   *string
		last string
	}{
		{&key.Resource.Group, last.Resource.Group},
		{&key.Resource.Resource, last.Resource.Resource},
		{&key.Namespace, last.Namespace},
		{&key.Name, ""},
	} {
		b, err := d.bytes(maxText, &d.buf)
		if err != nil {
			return nil, err
		}
		if *field.to = field.last; field.last != string(b) { // avoids copies of equal strings
			*field.to = string(b)
		}
	}
	revision, err := binary.ReadUvarint(d.in)
	if err != nil {
		return nil, cut(err)
	}
	var schema [8]byte
	if _, err := io.ReadFull(d.in, schema[:]); err != nil {
		return nil, cut(err)
	}
	nanos, err := binary.ReadVarint(d.in)
	if err != nil {
		return nil, cut(err)
	}
	var written time.Time
	if nanos != 0 {
		written = time.Unix(0, nanos).UTC()
	}
	var own []byte
	raw, err := d.bytes(maxObject, &own)
	if err != nil {
		return nil, err
	}
	o, err := object.Parse(key, raw, binary.LittleEndian.Uint64(schema[:]), written)
	if err != nil {
		return nil, err
	}
	o.Revision = object.Revision(revision)
	if err := d.order.next(o); err != nil {
		return nil, err
	}
	return o, nil
}

// end reads the rest of the last record, and checks that it ends the file.
func (d *decoder) end() error {
	if err := d.order.end(); err != nil {
		return err
	}
	objects, err := binary.ReadUvarint(d.in)
	if err != nil {
		return cut(err)
	}
	size, err := binary.ReadUvarint(d.in)
	if err != nil {
		return cut(err)
	}
	if objects != uint64(d.order.objects) || size != uint64(d.order.bytes) {
		return errEnd
	}
	if _, err := d.in.ReadByte(); err != io.EOF {
		return errors.New("unexpected data after its end")
	}
	return nil
}

// bytes reads a length and that many bytes into a buffer. The buffer grows with the data that is
// available, not with the length that the file claims.
func (d *decoder) bytes(most uint64, buf *[]byte) ([]byte, error) {
	size, err := binary.ReadUvarint(d.in)
	if err != nil {
		return nil, cut(err)
	}
	if size > most {
		return nil, fmt.Errorf("a field of %d bytes, the maximum is %d", size, most)
	}
	const step = 4 << 20
	b := (*buf)[:0]
	for n := int(size); n > 0; n = int(size) - len(b) {
		n = min(n, step)
		from := len(b)
		if cap(b)-from < n {
			b = append(make([]byte, 0, from+n), b...)
		}
		b = b[:from+n]
		if _, err := io.ReadFull(d.in, b[from:]); err != nil {
			return nil, cut(err)
		}
	}
	*buf = b
	return b, nil
}

// cut replaces the end of the file, where more records are expected, by an error.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
