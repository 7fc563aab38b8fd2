package encryption

import (
	"bytes"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
)

// magic precedes the protobuf of objects that kube-apiserver stores.
const magic = "k8s\x00"

// belongs reports whether raw is an object, in JSON or in Kubernetes' protobuf, with the name and
// the namespace of the key. Random bytes are not.
func belongs(key object.Key, raw []byte) bool {
	if plainly(key, raw) {
		return true
	}
	name, namespace, ok := nameOf(raw)
	return ok && name == key.Name && namespace == key.Namespace
}

// plainly is a fast path of belongs for JSON as the server writes it: canonical, with names without
// escapes. It returns false for other JSON.
func plainly(key object.Key, raw []byte) bool {
	var metadata, name, namespace []byte
	return members(raw, func(member, value []byte) {
		if string(member) == "metadata" {
			metadata = value
		}
	}) && members(metadata, func(member, value []byte) {
		switch string(member) {
		case "name":
			name = value
		case "namespace":
			namespace = value
		}
	}) && quotes(name, key.Name) && (quotes(namespace, key.Namespace) || namespace == nil && key.Namespace == "")
}

// quotes reports whether value is the given text in quotes, without escapes.
func quotes(value []byte, text string) bool {
	return len(value) == len(text)+2 && value[0] == '"' && string(value[1:len(value)-1]) == text && strings.IndexByte(text, '\\') < 0
}

func nameOf(raw []byte) (name, namespace string, ok bool) {
	if message, ok := bytes.CutPrefix(raw, []byte(magic)); ok {
		var envelope runtime.Unknown
		if envelope.Unmarshal(message) != nil {
			return "", "", false
		}
		// The metadata is the same field in all kinds.
		var o metav1.PartialObjectMetadata
		if o.Unmarshal(envelope.Raw) != nil {
			return "", "", false
		}
		return o.Name, o.Namespace, true
	}
	var o struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if json.UnmarshalCaseSensitivePreserveInts(raw, &o) != nil {
		return "", "", false
	}
	return o.Metadata.Name, o.Metadata.Namespace, true
}
