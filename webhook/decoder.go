package webhook

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
)

// A Decoder decodes the objects of requests.
type Decoder interface {
	// Decode decodes the object of a request. Deletions have none, but an OldObject: see DecodeRaw.
	Decode(req Request, into runtime.Object) error
	// DecodeRaw decodes an object of a request, which must be of the kind and version of into. It
	// fails if there is none.
	DecodeRaw(rawObj runtime.RawExtension, into runtime.Object) error
}

// NewDecoder returns a Decoder into the types of a scheme and into unstructured objects. It sets no
// defaults.
func NewDecoder(scheme *runtime.Scheme) Decoder {
	return decoder{serializer.NewCodecFactory(scheme).UniversalDeserializer()}
}

type decoder struct{ runtime.Decoder }

func (d decoder) Decode(req Request, into runtime.Object) error {
	return d.DecodeRaw(req.Object, into)
}

func (d decoder) DecodeRaw(rawObj runtime.RawExtension, into runtime.Object) error {
	if len(rawObj.Raw) == 0 {
		return errors.New("there is no content to decode")
	}
	// API servers leave out the kind of some objects, without which unstructured objects refuse to
	// be decoded.
	if into, ok := into.(runtime.Unstructured); ok {
		var content map[string]any
		if err := json.Unmarshal(rawObj.Raw, &content); err != nil {
			return err
		}
		into.SetUnstructuredContent(content)
		return nil
	}
	return runtime.DecodeInto(d.Decoder, rawObj.Raw, into)
}
