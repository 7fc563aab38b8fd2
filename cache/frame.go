package cache

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxFrame is the size limit of a watch event in bytes, as in client-go.
const maxFrame = 16 << 20

// envelopeMagic is the prefix of an object in protobuf. A runtime.Unknown follows, with the object
// in its field raw.
const envelopeMagic = "k8s\x00"

var errTooLarge = fmt.Errorf("an event is larger than %d bytes", maxFrame)

var errCut = fmt.Errorf("the stream ends within an event: %w", io.ErrUnexpectedEOF)

// A frame is an event of a watch. The object is valid until the next frame is read.
type frame struct {
	event  string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	object encoded
}

// A frameReader splits the body of a watch into frames.
type frameReader interface {
	// next returns io.EOF at the end of the body, and io.ErrUnexpectedEOF if that is within a
	// frame.
	next() (frame, error)
}

// newFrameReader selects the format by the first byte: in protobuf it is the highest byte of the
// frame length, which is never as large as '{'.
func newFrameReader(body io.Reader) (frameReader, error) {
	r := bufio.NewReaderSize(body, 32<<10)
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] < ' ' && first[0] != '\n' && first[0] != '\r' && first[0] != '\t' {
		return &protobufFrames{r: r}, nil
	}
	return &jsonFrames{r: r}, nil
}

// protobufFrames are metav1.WatchEvent messages, each after its length in four bytes.
type protobufFrames struct {
	r   *bufio.Reader
	buf []byte
}

func (p *protobufFrames) next() (frame, error) {
	var size [4]byte
	if _, err := io.ReadFull(p.r, size[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return frame{}, fmt.Errorf("%w: %d", errTooLarge, n)
	}
	if err := p.read(int(n)); err != nil {
		return frame{}, err
	}
	return splitProtobufEvent(p.buf)
}

// read reads n bytes. It allocates memory for a large n only as bytes arrive.
func (p *protobufFrames) read(n int) error {
	const trusted = 1 << 20
	p.buf = p.buf[:0]
	for len(p.buf) < n {
		read := len(p.buf)
		p.buf = slices.Grow(p.buf, min(n-read, trusted))
		p.buf = p.buf[:min(n, read+trusted)]
		if _, err := io.ReadFull(p.r, p.buf[read:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errCut
		} else if err != nil {
			return err
		}
	}
	return nil
}

func splitProtobufEvent(message []byte) (f frame, err error) {
	err = eachField(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			f.event = eventName(value)
		case 2: // a runtime.RawExtension
			return eachField(value, func(number protowire.Number, value []byte) (err error) {
				if number == 1 {
					f.object, err = openEnvelope(value)
				}
				return err
			})
		}
		return nil
	})
	if err == nil && f.object.bytes == nil {
		err = errors.New("an event without object")
	}
	return f, err
}

// openEnvelope returns the message in a runtime.Unknown, or JSON as it is.
func openEnvelope(b []byte) (o encoded, err error) {
	if len(b) < len(envelopeMagic) || string(b[:len(envelopeMagic)]) != envelopeMagic {
		if len(b) > 0 && b[0] == '{' {
			return encoded{bytes: b}, nil
		}
		return o, errors.New("neither protobuf nor JSON")
	}
	o = encoded{bytes: []byte{}, protobuf: true}
	err = eachField(b[len(envelopeMagic):], func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			return eachField(value, func(number protowire.Number, value []byte) error {
				if number == 2 {
					o.isStatus = string(value) == "Status"
				}
				return nil
			})
		case 2:
			o.bytes = value
		case 3:
			if len(value) > 0 {
				return fmt.Errorf("content encoding %q is unknown", value)
			}
		}
		return nil
	})
	return o, err
}

// eachField calls f for the fields of a message that have a length, and skips the others.
func eachField(message []byte, f func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// jsonFrames are JSON objects {"type": ..., "object": ...}, one after the other.
type jsonFrames struct {
	r   *bufio.Reader
	buf []byte
}

func (j *jsonFrames) next() (frame, error) {
	value, err := j.value()
	if err != nil {
		return frame{}, err
	}
	return splitJSONEvent(value)
}

// value reads the next object. It is valid until the next call.
func (j *jsonFrames) value() ([]byte, error) {
	j.buf = j.buf[:0]
	var depth int
	var text, escaped bool
	for {
		if _, err := j.r.Peek(1); errors.Is(err, io.EOF) {
			if len(j.buf) > 0 {
				return nil, errCut
			}
			return nil, io.EOF
		} else if err != nil {
			return nil, err
		}
		chunk, _ := j.r.Peek(j.r.Buffered())
		if len(j.buf) == 0 {
			blank := skipSpace(chunk, 0)
			if blank > 0 {
				_, _ = j.r.Discard(blank)
				continue
			}
			if chunk[0] != '{' {
				return nil, fmt.Errorf("unexpected %q at the start of an event", chunk[0])
			}
		}
		end := 0
		for i, c := range chunk {
			switch {
			case escaped:
				escaped = false
			case text:
				escaped = c == '\\'
				text = c != '"'
			case c == '"':
				text = true
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				if depth--; depth == 0 {
					end = i + 1
				}
			}
			if end > 0 {
				break
			}
		}
		if end > 0 {
			chunk = chunk[:end]
		}
		if len(j.buf)+len(chunk) > maxFrame {
			return nil, errTooLarge
		}
		j.buf = append(j.buf, chunk...)
		_, _ = j.r.Discard(len(chunk))
		if end > 0 {
			return j.buf, nil
		}
	}
}

func splitJSONEvent(value []byte) (f frame, err error) {
	err = eachMember(value, func(name string, value []byte) (err error) {
		switch name {
		case "type":
			var t string
			if t, err = jsonString(value); err == nil {
				f.event = eventName([]byte(t))
			}
		case "object":
			f.object = encoded{bytes: value}
		}
		return err
	})
	if err == nil && f.object.bytes == nil {
		err = errors.New("an event without object")
	}
	return f, err
}

// eventName returns a known name without an allocation.
func eventName(b []byte) string {
	for _, name := range [...]string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"} {
		if string(b) == name {
			return name
		}
	}
	return string(b)
}

// A page is a list, or a part of one, as the server sends it.
type page struct {
	revision, token string
	items           []encoded
}

// splitList splits the body of a list, of which the items are parts.
func splitList(body []byte) (p page, err error) {
	first := skipSpace(body, 0)
	if first < len(body) && body[first] == '{' {
		return splitJSONList(body)
	}
	list, err := openEnvelope(body)
	if err != nil {
		return p, err
	}
	err = eachField(list.bytes, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			return eachField(value, func(number protowire.Number, value []byte) error {
				switch number {
				case 2:
					p.revision = string(value)
				case 3:
					p.token = string(value)
				}
				return nil
			})
		case 2:
			p.items = append(p.items, encoded{bytes: value, protobuf: true})
		}
		return nil
	})
	return p, err
}

func splitJSONList(body []byte) (p page, err error) {
	err = eachMember(body, func(name string, value []byte) error {
		switch name {
		case "metadata":
			return eachMember(value, func(name string, value []byte) (err error) {
				switch name {
				case "resourceVersion":
					p.revision, err = jsonString(value)
				case "continue":
					p.token, err = jsonString(value)
				}
				return err
			})
		case "items":
			return eachElement(value, func(value []byte) error {
				p.items = append(p.items, encoded{bytes: value})
				return nil
			})
		}
		return nil
	})
	return p, err
}
