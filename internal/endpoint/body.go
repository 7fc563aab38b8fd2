package endpoint

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metajson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// readBody reads the whole body of a request, within the bound.
func (c *call) readBody() ([]byte, error) {
	if c.data != nil {
		return c.data, nil // the request has begun anew
	}
	data, err := c.drainInTime()
	c.data = data
	return data, err
}

func (c *call) drainBody() ([]byte, error) {
	most := c.h.opts.MaxBody
	tooLarge := apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", most))
	if c.r.ContentLength > most {
		return nil, tooLarge
	}
	size := c.r.ContentLength
	if size < 0 {
		size = 512
	}
	data := make([]byte, 0, size+1)
	for {
		n, err := c.r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > most:
			return nil, tooLarge
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}

// bodyEncoding tells the encoding of the body; JSON if the client does not say.
// The error is 415.
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

// body brings the bytes of a request to JSON.
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
		return resource.Body{}, c.unrecognized(err, data)
	}
	// Errors about the kind show the body as it came.
	gvk, err := metajson.DefaultMetaFactory.Interpret(converted)
	if err == nil && gvk.Kind == "" && c.definition.Custom {
		err = runtime.NewMissingKindErr(string(data))
	}
	if err != nil {
		return resource.Body{}, c.unrecognized(err, data)
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

// yamlErrors splits the errors of the YAML parser, so that each makes a warning.
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
		return resource.Body{}, c.unrecognized(err, data)
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

// bodyType is an empty object of the Go type of the body; nil for custom resources.
func (c *call) bodyType() runtime.Object {
	return c.request().BodyModel().New()
}

// scaling says that the request is for the scale of an object.
func (c *call) scaling() bool { return c.info.Subresource == "scale" && c.version.Scale != nil }

// unrecognized is the error for a body that is not what its content type says.
func (c *call) unrecognized(err error, data []byte) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", c.bodyKind(), err, summary(data)))
}

// undecodable is the error for what is in an envelope and is not what the
// envelope says.
func (c *call) undecodable(envelope *runtime.Unknown, err error) error {
	gvk := envelope.GroupVersionKind()
	if gvk.Kind == "" {
		gvk.Kind, gvk.Version = c.bodyKind(), c.version.Name
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, c.bodyKind(), err))
}

func (c *call) bodyKind() string {
	return c.request().BodyKind().Kind
}

// summary is the beginning of a body, for messages: text if it looks like JSON.
func summary(data []byte) string {
	const most = 30
	if len(data) == 0 {
		return "<empty>"
	}
	show := hex.EncodeToString
	if data[0] == '{' {
		show = func(b []byte) string { return string(b) }
	}
	if len(data) > most {
		return show(data[:most]) + " ..."
	}
	return show(data)
}
