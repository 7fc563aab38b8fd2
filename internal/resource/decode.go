package resource

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Body is the object that came with a request, as JSON. Strict holds what was
// found wrong with it on the way to JSON (duplicate keys in YAML). Typed, if set,
// is the object in place of Data: one of the TypedModel that BodyModel returns.
type Body struct {
	Data   []byte
	Strict []error
	Typed  runtime.Object
}

// kind is what the body says that it is.
func (b Body) kind() (*schema.GroupVersionKind, error) {
	if b.Typed != nil {
		gvk := b.Typed.GetObjectKind().GroupVersionKind()
		return &gvk, nil
	}
	return serializer.DefaultMetaFactory.Interpret(b.Data)
}

func (b Body) decode(model Model, strict *[]error) (Tree, error) {
	if typed, ok := model.(TypedModel); ok && b.Typed != nil {
		return typed.TreeOf(b.Typed)
	}
	return model.Decode(b.Data, strict)
}

// strictErrors returns where errors of strict decoding go: nowhere, if the client
// does not want to know.
func (r *Request) strictErrors(into *[]error) *[]error {
	if r.FieldValidation == metav1.FieldValidationIgnore {
		return nil
	}
	return into
}

// decode reads a body that must be of the kind and version of the request.
func (s *Store) decode(r *Request, b Body) (Tree, error) {
	gvk, err := b.kind()
	if err != nil {
		return nil, r.undecodable(nil, b.Data, err)
	}
	want := r.BodyKind()
	if gvk.Kind == "" && gvk.Version == "" && !r.customBody() {
		gvk = &want
	}
	if gvk.Kind == "" {
		if r.customBody() {
			return nil, r.undecodable(gvk, b.Data, runtime.NewMissingKindErr(string(b.Data)))
		}
		gvk.Kind = want.Kind
	}
	if gvk.Version == "" && !r.customBody() {
		gvk.Group, gvk.Version = want.Group, want.Version
	}
	if r.Subresource == scaleSubresource && (gvk.Kind != want.Kind || r.Definition.Custom && *gvk != want) {
		return nil, errUnknownScale()
	}
	otherVersion := gvk.GroupVersion() != want.GroupVersion()
	if action := r.action(); action != nil && slices.Contains(action.Also, gvk.GroupVersion()) {
		otherVersion = false
	}
	if gvk.Kind != want.Kind && !(r.Definition.Custom && otherVersion) {
		return nil, s.wrongKind(r, b.Data, *gvk, want)
	}
	if otherVersion {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", gvk.GroupVersion(), want.GroupVersion()))
	}
	var strict []error
	obj, err := b.decode(r.BodyModel(), r.strictErrors(&strict))
	if err != nil {
		return nil, r.undecodable(gvk, b.Data, err)
	}
	if r.FieldValidation != metav1.FieldValidationIgnore {
		if err := r.judgeStrict(append(b.Strict, strict...), func(err error) error {
			if r.Definition.Custom && r.Subresource == scaleSubresource {
				return errUnknownScale()
			}
			return r.undecodable(gvk, b.Data, err)
		}); err != nil {
			return nil, err
		}
	}
	if r.Decoded != nil {
		r.Decoded(obj)
	}
	return obj, nil
}

// customBody says whether the body must be a custom resource, which has to say what it is.
func (r *Request) customBody() bool { return r.Definition.Custom && r.Subresource != scaleSubresource }

// errUnknownScale is what Kubernetes says of most bodies that are no Scale.
func errUnknownScale() error {
	return apierrors.NewBadRequest(fmt.Sprintf("no kind is registered for the type v1.Scale in scheme %q", schemeName))
}

// BodyKind is what the bodies of this request are.
func (r *Request) BodyKind() schema.GroupVersionKind {
	if r.Subresource == scaleSubresource {
		return scaleKind
	}
	if action := r.action(); action != nil {
		return action.Kind
	}
	return r.Definition.GroupVersionKind(r.Version)
}

// BodyModel knows what the bodies of this request may hold.
func (r *Request) BodyModel() Model {
	if r.Subresource == scaleSubresource {
		return scaleModel{}
	}
	if action := r.action(); action != nil {
		return action.Model
	}
	return r.Version.Model
}

// judgeStrict warns of the errors of strict decoding, or makes one of them.
func (r *Request) judgeStrict(errs []error, refuse func(error) error) error {
	if len(errs) == 0 {
		return nil
	}
	if r.FieldValidation == metav1.FieldValidationStrict {
		return refuse(runtime.NewStrictDecodingError(errs))
	}
	for _, err := range errs {
		text := err.Error()
		// What the YAML decoder has found stands on lines of its own.
		if _, lines, found := strings.Cut(text, "yaml: unmarshal errors:\n"); found {
			text = lines
		}
		r.Warn(strings.TrimSpace(text))
	}
	return nil
}

// undecodable words the error for a body that cannot be decoded.
func (r *Request) undecodable(gvk *schema.GroupVersionKind, data []byte, err error) error {
	want := r.BodyKind()
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, want.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(data)))
}

// schemeName is what Kubernetes calls its scheme in messages.
const schemeName = "pkg/runtime/scheme.go:111"

// definitions is the group of a server of its own in Kubernetes, which knows no kinds of others, and has words of its own.
const definitions = "apiextensions.k8s.io"

// wrongKind words the error for a body of another kind.
func (s *Store) wrongKind(r *Request, data []byte, got, want schema.GroupVersionKind) error {
	if r.Definition.Custom {
		var body metav1.PartialObjectMetadata
		if err := json.Unmarshal(data, &body); err != nil {
			return r.undecodable(&got, data, err)
		}
		return apierrors.NewInvalid(got.GroupKind(), body.Name, field.ErrorList{
			field.Invalid(field.NewPath("kind"), got.Kind, "must be "+want.Kind),
		})
	}
	err := fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", got.Version, got.Kind, internalPackage(want.Group), want.Kind)
	known := schema.GroupKind{Group: got.Group, Kind: strings.TrimSuffix(got.Kind, "List")}
	if s.registry.Load().Kind(known) == nil || (got.Group == definitions) != (want.Group == definitions) {
		err = runtime.NewNotRegisteredErrForKind(schemeName, got)
	}
	return r.undecodable(&got, data, err)
}

// internalPackage is the package in which Kubernetes keeps the internal types of
// a group; its name occurs in messages.
func internalPackage(group string) string {
	if group == "" {
		return "core"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// summary is the start of a body, in hex unless it may be JSON.
func summary(data []byte) string {
	const most = 30
	text := func(b []byte) string { return hex.EncodeToString(b) }
	switch {
	case len(data) == 0:
		return "<empty>"
	case data[0] == '{':
		text = func(b []byte) string { return string(b) }
	}
	if len(data) > most {
		return text(data[:most]) + " ..."
	}
	return text(data)
}
