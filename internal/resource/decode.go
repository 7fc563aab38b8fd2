package resource

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/causes"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Body is the object in the body of a request, as JSON. Strict holds the errors that were found
// when it was converted to JSON, such as duplicate keys in YAML. Typed, if set, is the object in
// place of Data: one of the Go type that BodyModel().New returns.
type Body struct {
	Data   []byte
	Strict []error
	Typed  runtime.Object
}

// kind returns the apiVersion and kind of the body. An error means that the body is invalid, but
// an invalid body may have the kind that is wanted.
func (b Body) kind(want schema.GroupVersionKind) (*schema.GroupVersionKind, error) {
	if b.Typed != nil {
		gvk := b.Typed.GetObjectKind().GroupVersionKind()
		return &gvk, nil
	}
	if hasKind(b.Data, want) {
		return &want, nil
	}
	return serializer.DefaultMetaFactory.Interpret(b.Data)
}

func (b Body) decode(model Decoder, strict *[]error) (Tree, error) {
	if typed, ok := model.(TypedModel); ok && b.Typed != nil {
		return typed.TreeOf(b.Typed)
	}
	return model.Decode(b.Data, strict)
}

// strictErrors returns where errors of strict decoding go: nil if the client ignores them.
func (r *Request) strictErrors(into *[]error) *[]error {
	if r.FieldValidation == metav1.FieldValidationIgnore {
		return nil
	}
	return into
}

// decode decodes a body, which must be of the kind and version of the request.
func (s *Store) decode(ctx context.Context, r *Request, b Body) (Tree, error) {
	want := r.BodyKind()
	gvk, err := b.kind(want)
	if err != nil {
		return nil, r.Undecodable(nil, b.Data, err)
	}
	if gvk.Kind == "" && gvk.Version == "" && !r.customBody() {
		gvk = &want
	}
	if gvk.Kind == "" {
		if r.customBody() {
			return nil, r.Undecodable(gvk, b.Data, runtime.NewMissingKindErr(string(b.Data)))
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
		if b.Typed == nil { // the error of invalid JSON comes first
			if _, invalid := serializer.DefaultMetaFactory.Interpret(b.Data); invalid != nil {
				return nil, r.Undecodable(nil, b.Data, invalid)
			}
		}
		return nil, r.Undecodable(gvk, b.Data, err)
	}
	if r.FieldValidation != metav1.FieldValidationIgnore {
		if err := r.reportStrict(append(b.Strict, strict...), func(err error) error {
			if r.Definition.Custom && r.Subresource == scaleSubresource {
				return errUnknownScale()
			}
			return r.Undecodable(gvk, b.Data, err)
		}); err != nil {
			return nil, err
		}
	}
	if r.Decoded != nil {
		r.Decoded(obj)
	}
	return obj, ctx.Err()
}

// customBody reports whether the body must be a custom resource, whose apiVersion and kind are
// required.
func (r *Request) customBody() bool { return r.Definition.Custom && r.Subresource != scaleSubresource }

// errUnknownScale is the error of Kubernetes for most bodies that are not a Scale.
func errUnknownScale() error {
	return apierrors.NewBadRequest(fmt.Sprintf("no kind is registered for the type v1.Scale in scheme %q", schemeName))
}

// BodyKind returns the kind of the bodies of this request.
func (r *Request) BodyKind() schema.GroupVersionKind {
	if r.Subresource == scaleSubresource {
		return scaleKind
	}
	if action := r.action(); action != nil {
		return action.Kind
	}
	if c := r.connection(); c != nil {
		return c.Kind
	}
	return r.Definition.GroupVersionKind(r.Version)
}

// BodyModel returns the model of the bodies of this request.
func (r *Request) BodyModel() Model {
	if r.Subresource == scaleSubresource {
		return scaleModel{}
	}
	if action := r.action(); action != nil {
		return action.Model
	}
	if c := r.connection(); c != nil {
		return c.Model
	}
	return r.Version.Model
}

// reportStrict reports the errors of strict decoding as the request wants them: as warnings, or as
// one error, which refuse wraps.
func (r *Request) reportStrict(errs []error, refuse func(error) error) error {
	if len(errs) == 0 {
		return nil
	}
	if r.FieldValidation == metav1.FieldValidationStrict {
		return refuse(runtime.NewStrictDecodingError(errs))
	}
	for _, err := range errs {
		text := err.Error()
		// The YAML decoder writes its errors on separate lines.
		if _, lines, found := strings.Cut(text, "yaml: unmarshal errors:\n"); found {
			text = lines
		}
		r.Warn(strings.TrimSpace(text))
	}
	return nil
}

// Undecodable returns the error, 400, for a body that cannot be decoded. gvk is the kind that the
// body names; without one, the error shows the start of data.
func (r *Request) Undecodable(gvk *schema.GroupVersionKind, data []byte, err error) error {
	want := r.BodyKind()
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, want.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(data)))
}

// schemeName is the name of the scheme of Kubernetes in messages.
const schemeName = "pkg/runtime/scheme.go:111"

// definitions is the group that a separate server serves in Kubernetes, with its own scheme and its
// own wording.
const definitions = "apiextensions.k8s.io"

// wrongKind returns the error for a body of another kind.
func (s *Store) wrongKind(r *Request, data []byte, got, want schema.GroupVersionKind) error {
	if r.Definition.Custom {
		var body metav1.PartialObjectMetadata
		if err := json.Unmarshal(data, &body); err != nil {
			return r.Undecodable(&got, data, err)
		}
		return causes.Invalid(got.GroupKind(), body.Name, field.ErrorList{
			field.Invalid(field.NewPath("kind"), got.Kind, "must be "+want.Kind),
		})
	}
	err := fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", got.Version, got.Kind, internalPackage(want.Group), want.Kind)
	known := schema.GroupKind{Group: got.Group, Kind: strings.TrimSuffix(got.Kind, "List")}
	if s.registry.Load().Kind(known) == nil || (got.Group == definitions) != (want.Group == definitions) {
		err = runtime.NewNotRegisteredErrForKind(schemeName, got)
	}
	return r.Undecodable(&got, data, err)
}

// internalPackage returns the name of the package of Kubernetes with the internal types of a group,
// which messages contain.
func internalPackage(group string) string {
	if group == "" {
		return "core"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// summary returns the start of a body, in hex unless it looks like JSON.
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
