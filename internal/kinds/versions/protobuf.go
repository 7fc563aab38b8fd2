package versions

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// DecodeProtobuf returns the JSON of an object that kube-apiserver has stored as protobuf, in the
// stored version. It supports the built-in kinds in all versions that client-go has.
func DecodeProtobuf(value []byte) ([]byte, error) {
	o, kind, err := decoder().Decode(value, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode protobuf: %w", err)
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(o)
}

var decoder = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(Scheme()).UniversalDeserializer()
})
