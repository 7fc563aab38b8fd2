package etcd

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// DecodeProtobuf returns the JSON of an object that kube-apiserver has stored as
// protobuf, in the version in which it is stored. It knows the built-in kinds in the
// versions that client-go has.
func DecodeProtobuf(value []byte) ([]byte, error) {
	decoder, err := decoder()
	if err != nil {
		return nil, err
	}
	o, kind, err := decoder.Decode(value, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode protobuf: %w", err)
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(o)
}

var decoder = sync.OnceValues(func() (runtime.Decoder, error) {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return nil, err
	}
	if err := apiextensions.AddToScheme(s); err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(s).UniversalDeserializer(), nil
})
