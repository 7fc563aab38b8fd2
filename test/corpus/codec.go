package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const protobufMedia = "application/vnd.kubernetes.protobuf"

// knownTypes has the Go types of all kinds with a protobuf encoding.
var knownTypes = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// decodeJSON decodes JSON and keeps numbers as written.
func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("text after the first value")
	}
	return v, nil
}

func decodeYAML(text []byte) (any, error) {
	j, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return decodeJSON(j)
}

func decodeProtobuf(body []byte) (any, error) {
	types, err := knownTypes()
	if err != nil {
		return nil, err
	}
	object, _, err := protobuf.NewSerializer(types, types).Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	j, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return decodeJSON(j)
}

// protobufFromYAML encodes an object of a built-in kind as protobuf in Kubernetes' envelope. It
// loses fields that the Go type does not have.
func protobufFromYAML(text []byte) ([]byte, error) {
	types, err := knownTypes()
	if err != nil {
		return nil, err
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return nil, err
	}
	object, err := types.New(meta.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, object); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := protobuf.NewSerializer(types, types).Encode(object, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// convert decodes a response into a Go type.
func convert(v, into any) error {
	j, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(j, into)
}
