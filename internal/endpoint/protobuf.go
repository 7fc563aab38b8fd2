package endpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes wraps a protobuf message in an envelope: four bytes and a runtime.Unknown that names
// the kind. This file encodes the messages around encoded parts; field numbers are those of
// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto.
var envelopeMagic = []byte{'k', '8', 's', 0}

// openEnvelope decodes an envelope.
func openEnvelope(data []byte) (runtime.Unknown, error) {
	var unknown runtime.Unknown
	switch {
	case len(data) == 0:
		return unknown, errors.New("empty data")
	case !bytes.HasPrefix(data, envelopeMagic):
		return unknown, fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", envelopeMagic)
	case len(data) == len(envelopeMagic):
		return unknown, errors.New("empty body")
	}
	err := unknown.Unmarshal(data[len(envelopeMagic):])
	return unknown, err
}

// messageOf returns the message in an envelope. It shares the bytes of data.
func messageOf(data []byte) ([]byte, error) {
	data, ok := bytes.CutPrefix(data, envelopeMagic)
	for ok && len(data) > 0 {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		data = data[size:]
		if number == 2 && kind == protowire.BytesType {
			message, size := protowire.ConsumeBytes(data)
			if size < 0 {
				return nil, protowire.ParseError(size)
			}
			return message, nil
		}
		if size = protowire.ConsumeFieldValue(number, kind, data); size < 0 {
			return nil, protowire.ParseError(size)
		}
		data = data[size:]
	}
	return nil, errors.New("envelope has no message")
}

// appendEnvelope wraps a message.
func appendEnvelope(dst []byte, apiVersion, kind string, message []byte) []byte {
	dst = beginEnvelope(dst, apiVersion, kind, len(message))
	return endEnvelope(append(dst, message...))
}

// beginEnvelope appends the part of an envelope before its message, which has size bytes.
func beginEnvelope(dst []byte, apiVersion, kind string, size int) []byte {
	dst = append(dst, envelopeMagic...)
	var typeMeta []byte
	typeMeta = appendText(typeMeta, 1, apiVersion)
	typeMeta = appendText(typeMeta, 2, kind)
	dst = appendBytes(dst, 1, typeMeta)
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(size))
}

// endEnvelope appends the part of an envelope after its message.
func endEnvelope(dst []byte) []byte {
	dst = appendText(dst, 3, "") // contentEncoding
	return appendText(dst, 4, "")
}

// sizeOfField returns the encoded size of a field of bytes.
func sizeOfField(field protowire.Number, b []byte) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(len(b))
}

func appendBytes(dst []byte, field protowire.Number, b []byte) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendBytes(dst, b)
}

func appendText(dst []byte, field protowire.Number, s string) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendString(dst, s)
}

// appendRevised appends a protobuf form with another resourceVersion than the one it was encoded
// with: decoders merge a second metadata field at the end of a message into the first one.
func appendRevised(dst, form []byte, revision object.Revision) ([]byte, error) {
	envelope, err := openEnvelope(form)
	if err != nil {
		return nil, err
	}
	metadata := appendText(nil, 6, revision.String())
	message := appendBytes(bytes.Clone(envelope.Raw), 1, metadata)
	return appendEnvelope(dst, envelope.APIVersion, envelope.Kind, message), nil
}

// appendListMeta appends a ListMeta message.
func appendListMeta(dst []byte, revision, continueToken string, remaining *int64) []byte {
	dst = appendText(dst, 1, "") // selfLink
	dst = appendText(dst, 2, revision)
	dst = appendText(dst, 3, continueToken)
	if remaining != nil {
		dst = protowire.AppendTag(dst, 4, protowire.VarintType)
		dst = protowire.AppendVarint(dst, uint64(*remaining))
	}
	return dst
}

// appendEventFrame appends a WatchEvent in its frame: its length and the event, which has no
// envelope; the object in it has one.
func appendEventFrame(dst []byte, eventType string, object []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendText(dst, 1, eventType)
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(protowire.SizeTag(1)+protowire.SizeBytes(len(object))))
	dst = appendBytes(dst, 1, object)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
