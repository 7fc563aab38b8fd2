package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/turns"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metajson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// readBody returns the body of a request, or the error with which reading it failed.
func (c *call) readBody() ([]byte, error) {
	if c.data == nil && c.dataErr == nil {
		c.data, c.dataErr = c.drainInTime()
	}
	return c.data, c.dataErr
}

// firstBytes is the size of the first buffer of a body: new memory costs up to 1 us a KB, and
// clients need not send what they announce.
const firstBytes = 4 << 10

// drainBody reads the body, up to Options.MaxBody. It reserves memory as the body arrives, not when
// its length is announced.
func (c *call) drainBody() ([]byte, error) {
	most := c.h.opts.MaxBody
	tooLarge := apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", most))
	if c.r.ContentLength > most {
		return nil, tooLarge
	}
	size := c.r.ContentLength
	if size < 0 {
		size = firstBytes
	}
	data := make([]byte, 0, min(size, firstBytes)+1)
	for {
		n, err := c.r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > most:
			return nil, tooLarge
		case errors.Is(err, io.EOF):
			c.w.unreadBody = false
			return data, nil
		case err != nil:
			// The client has disconnected, or the framing of the body is invalid.
			return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot read the body of the request: %v", err))
		case len(data) == cap(data):
			grown := max(2*int64(cap(data)), lightBody)
			if c.r.ContentLength >= 0 {
				grown = min(grown, c.r.ContentLength+1)
			}
			grown = max(grown, int64(cap(data))+1)
			if err := c.room(grown); err != nil {
				return nil, err
			}
			data = c.h.growers.enlarge(data, grown)
		}
	}
}

// growers are the requests that enlarge the buffer of their body, which takes up to 1 ms, since the
// memory is new.
type growers struct{ turns.Turns }

// enlarge returns the same bytes with a larger capacity.
func (g growers) enlarge(data []byte, size int64) []byte {
	g.Take()
	defer g.Give()
	larger := make([]byte, size)
	copy(larger, data)
	return larger[:len(data)]
}

// bodyEncoding returns the encoding of the body: JSON if there is no Content-Type. The error is
// 415.
func bodyEncoding(r *http.Request) (encoding, error) {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" || contentType == contentTypeJSON {
		return asJSON, nil
	}
	if mediaType, _, err := mime.ParseMediaType(contentType); err == nil {
		for e, known := range mediaTypes {
			if mediaType == known {
				return encoding(e), nil
			}
		}
	}
	return 0, unsupportedMediaType(mediaTypes[:])
}

// body converts the body of a request to JSON, or to the Go type of its kind.
func (c *call) body(e encoding, data []byte, fieldValidation string) (resource.Body, error) {
	switch e {
	case asYAML:
		return c.bodyOfYAML(data, fieldValidation)
	case asProtobuf:
		return c.bodyOfProtobuf(data)
	}
	return resource.Body{Data: data}, nil
}

func (c *call) bodyOfYAML(data []byte, fieldValidation string) (resource.Body, error) {
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return resource.Body{}, c.request().Undecodable(nil, data, err)
	}
	if err := c.weighConverted(converted); err != nil {
		return resource.Body{}, err
	}
	// Errors about the kind show the body as it was sent.
	gvk, err := metajson.DefaultMetaFactory.Interpret(converted)
	if err == nil && gvk.Kind == "" && c.definition.Custom {
		err = runtime.NewMissingKindErr(string(data))
	}
	if err != nil {
		return resource.Body{}, c.request().Undecodable(nil, data, err)
	}
	body := resource.Body{Data: converted}
	if fieldValidation == metav1.FieldValidationIgnore {
		return body, nil
	}
	if _, err := yaml.YAMLToJSONStrict(data); err != nil {
		body.Strict = []error{err}
		if fieldValidation == metav1.FieldValidationWarn {
			body.Strict = yamlErrors(err)
		}
	}
	return body, nil
}

// yamlErrors splits the errors of the YAML parser, each of which becomes a warning.
func yamlErrors(err error) []error {
	text, isYAML := strings.CutPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: unmarshal errors:\n")
	if !isYAML {
		return []error{err}
	}
	var errs []error
	for line := range strings.SplitSeq(text, "\n") {
		errs = append(errs, errors.New(strings.TrimSpace(line)))
	}
	return errs
}

func (c *call) bodyOfProtobuf(data []byte) (resource.Body, error) {
	envelope, err := openEnvelope(data)
	if err != nil {
		return resource.Body{}, c.request().Undecodable(nil, data, err)
	}
	model := c.request().BodyModel()
	into := model.New()
	message, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok {
		return resource.Body{}, c.undecodable(&envelope, errors.New("object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"))
	}
	if err := message.Unmarshal(envelope.Raw); err != nil {
		return resource.Body{}, c.undecodable(&envelope, err)
	}
	into.GetObjectKind().SetGroupVersionKind(envelope.GroupVersionKind())
	if _, ok := model.(resource.TypedModel); ok {
		return resource.Body{Typed: into}, nil
	}
	converted, err := json.Marshal(into)
	return resource.Body{Data: converted}, err
}

// bodyType returns an empty object of the Go type of the body; nil for custom resources.
func (c *call) bodyType() runtime.Object {
	return c.request().BodyModel().New()
}

// scaling reports whether the request is for the scale of an object.
func (c *call) scaling() bool { return c.info.Subresource == "scale" && c.version.Scale != nil }

// undecodable is the error for the message in an envelope if it cannot be decoded as what the
// envelope names.
func (c *call) undecodable(envelope *runtime.Unknown, err error) error {
	r, gvk := c.request(), envelope.GroupVersionKind()
	if gvk.Kind == "" {
		gvk.Kind, gvk.Version = r.BodyKind().Kind, c.version.Name
	}
	return r.Undecodable(&gvk, nil, err)
}

// checkPatch rejects patches that are not valid JSON or YAML, with the messages of Kubernetes'
// audit.
func checkPatch(p resource.Patch) error {
	if json.Valid(p.Data) {
		return nil
	}
	if p.Type != types.ApplyYAMLPatchType {
		return apierrors.NewBadRequest("invalid JSON patch")
	}
	if _, err := utilyaml.ToJSON(p.Data); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
	}
	return nil
}

// decodeDeleteOptions reads DeleteOptions of any group: older clients send that of the resource.
func (c *call) decodeDeleteOptions(data []byte, options *metav1.DeleteOptions) error {
	contentType := contentTypeJSON
	if e, err := bodyEncoding(c.r); err != nil {
		return err
	} else {
		contentType = mediaTypes[e]
	}
	codecs := internalscheme.Codecs
	serializer, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), contentType)
	if !ok {
		return unsupportedMediaType(mediaTypes[:])
	}
	kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	decoded, _, err := codecs.DecoderToVersion(serializer.Serializer, kind.GroupVersion()).Decode(data, &kind, options)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if decoded != options {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	return nil
}
