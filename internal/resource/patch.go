package resource

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	codec "github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/object/jsonpatch"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A Patch is the body of a patch request.
type Patch struct {
	Type  types.PatchType
	Data  []byte
	Force bool // apply takes fields over from other managers
	// Copies is called each time a JSON patch is applied. The function that it returns is called with
	// the JSON of each value that the patch copies, before it is copied, and an error of it refuses
	// the patch. Default: all copies are allowed.
	Copies func() func(data []byte) error
}

// maxJSONPatchOperations is the maximum number of operations in a JSON patch, as in Kubernetes.
const maxJSONPatchOperations = 10000

// Patch changes an object, or the part of it that a subresource shows. An apply creates an object
// that does not exist.
func (s *Store) Patch(ctx context.Context, r *Request, p Patch) (Result, error) {
	next, err := s.patcher(ctx, r, p)
	if err != nil {
		return Result{}, err
	}
	if r.Subresource == scaleSubresource {
		return s.writeScale(ctx, r, "", next)
	}
	return s.change(ctx, r, change{
		allowCreate: p.Type == types.ApplyPatchType && r.Subresource == "",
		next:        next,
	})
}

// patcher returns a function that returns the patched object for the live one, which is nil if
// there is none, and records in its managedFields what the patch has changed.
func (s *Store) patcher(ctx context.Context, r *Request, p Patch) (func(Tree) (Tree, error), error) {
	manager, err := s.fieldManager(ctx, r)
	if err != nil {
		return nil, err
	}
	var patch func(live Tree) (Tree, error) // leaves live as it is
	switch p.Type {
	case types.JSONPatchType:
		patch, err = r.jsonPatch(ctx, p)
	case types.MergePatchType:
		patch, err = r.mergePatch(p.Data)
	case types.StrategicMergePatchType:
		patch, err = r.strategicPatch(p.Data)
	case types.ApplyPatchType:
		return r.applyPatch(manager, p)
	default:
		err = fmt.Errorf("unknown patch type %q", p.Type)
	}
	if err != nil {
		return nil, err
	}
	return func(live Tree) (Tree, error) {
		if live == nil {
			return nil, apierrors.NewNotFound(r.GroupResource(), r.Name)
		}
		obj, err := patch(live)
		if err != nil {
			return nil, err
		}
		return managed(manager, typed(r, live), typed(r, obj), r.Manager), nil
	}, nil
}

func (r *Request) jsonPatch(ctx context.Context, p Patch) (func(Tree) (Tree, error), error) {
	var strict []error
	if r.FieldValidation != metav1.FieldValidationIgnore {
		var operations []jsonPatchOp
		errs, err := json.UnmarshalStrict(p.Data, &operations)
		if err != nil {
			// The message contains the name of the type.
			text := strings.Replace(err.Error(), "resource.jsonPatchOp", "handlers.jsonPatchOp", 1)
			return nil, apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for _, e := range errs {
			strict = append(strict, fmt.Errorf("json patch %v", e))
		}
	}
	patch, err := jsonpatch.Decode(p.Data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(patch) > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(patch)))
	}
	return r.patchJSON(strict, func(current []byte) ([]byte, error) {
		var copied func([]byte) error
		if p.Copies != nil {
			copied = p.Copies()
		}
		patched, err := ApplyJSONPatch(ctx, patch, current, copied)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) { // of copied
			return nil, err
		}
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return patched, nil
	}), nil
}

// ApplyJSONPatch applies a patch to the canonical JSON of an object. As in Kubernetes, a test in
// the patch compares with JSON in which <, > and & are escaped. copied is that of
// [jsonpatch.Patch.Apply].
func ApplyJSONPatch(ctx context.Context, patch jsonpatch.Patch, doc []byte, copied func([]byte) error) ([]byte, error) {
	if bytes.ContainsAny(doc, "<>&\u2028\u2029") {
		var escaped bytes.Buffer
		stdjson.HTMLEscape(&escaped, doc)
		doc = escaped.Bytes()
	}
	return patch.Apply(ctx, doc, copied)
}

// jsonPatchOp is an operation of a JSON patch, to find unknown fields.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (r *Request) mergePatch(data []byte) (func(Tree) (Tree, error), error) {
	var patch Tree
	strict, err := json.UnmarshalStrict(data, &patch)
	if r.FieldValidation == metav1.FieldValidationIgnore {
		strict = nil
	} else if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	encoded := func(current []byte) ([]byte, error) {
		patched, err := jsonpatch.Merge(current, data)
		if errors.Is(err, jsonpatch.ErrBadPatch) {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return patched, err
	}
	switch {
	case err != nil || patch == nil: // jsonpatch has the words for it
		return r.patchJSON(strict, encoded), nil
	case r.customBody():
		return func(live Tree) (Tree, error) { return r.patchTree(merged(live, patch), strict) }, nil
	default:
		return func(live Tree) (Tree, error) {
			patched, err := object.AppendJSON(nil, merged(live, patch))
			if err != nil {
				return nil, err
			}
			return r.decodePatched(live, patched, strict, encoded)
		}, nil
	}
}

// patchTree checks a patched custom resource, without encoding it.
func (r *Request) patchTree(patched Tree, strict []error) (Tree, error) {
	refuse := func(err error) error {
		data, failed := object.AppendJSON(nil, patched)
		if failed != nil {
			return failed
		}
		return badPatch(string(data), err)
	}
	if patched["kind"] == nil {
		data, err := object.AppendJSON(nil, patched)
		if err != nil {
			return nil, err
		}
		return nil, refuse(runtime.NewMissingKindErr(string(data)))
	}
	apiVersion, ok := patched["apiVersion"].(string)
	kind, ok2 := patched["kind"].(string)
	if !ok || !ok2 {
		return nil, refuse(errors.New("apiVersion and kind must be strings"))
	}
	if err := r.staysCustom(patched, metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}); err != nil {
		return nil, err
	}
	var unknown []error
	obj, err := r.BodyModel().Normalise(runtime.DeepCopyJSON(patched), &unknown)
	if err != nil {
		return nil, refuse(err)
	}
	if r.FieldValidation == metav1.FieldValidationIgnore {
		return obj, nil
	}
	if err := r.reportStrict(append(strict, unknown...), refuse); err != nil {
		return nil, err
	}
	return obj, nil
}

// patchJSON returns a patch of trees for one of encoded objects.
func (r *Request) patchJSON(strict []error, patch func([]byte) ([]byte, error)) func(Tree) (Tree, error) {
	return func(live Tree) (Tree, error) {
		current, err := object.AppendJSON(nil, live)
		if err != nil {
			return nil, err
		}
		patched, err := patch(current)
		if err != nil {
			return nil, err
		}
		return r.decodePatched(live, patched, strict, patch)
	}
}

// decodePatched decodes and checks a patched object.
func (r *Request) decodePatched(live Tree, patched []byte, strict []error, patch func([]byte) ([]byte, error)) (Tree, error) {
	refuse := func(err error) error {
		if declared, failed := patch(r.declared(live)); failed == nil {
			patched = declared
		}
		return badPatch(string(patched), err)
	}
	var meta metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(patched, &meta); err != nil {
		return nil, refuse(err)
	}
	if r.customBody() && meta.Kind == "" {
		return nil, refuse(runtime.NewMissingKindErr(string(patched)))
	}
	if r.customBody() {
		if err := r.staysCustom(live, meta); err != nil {
			return nil, err
		}
	} else if err := r.sameKind(meta); err != nil {
		return nil, refuse(err)
	}
	var unknown []error
	obj, err := r.BodyModel().Decode(patched, r.strictErrors(&unknown))
	if err != nil {
		return nil, refuse(err)
	}
	if err := r.reportStrict(append(strict, unknown...), refuse); err != nil {
		return nil, err
	}
	return obj, nil
}

// declared encodes an object as the messages of Kubernetes show it: with the fields of a built-in
// kind in the order of its Go type.
func (r *Request) declared(obj Tree) []byte {
	var v any = obj
	if into := r.BodyModel().New(); into != nil && codec.FromTree(obj, into) == nil {
		v = into
	}
	data, err := stdjson.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// sameKind returns an error if a patch has changed the kind of an object.
func (r *Request) sameKind(meta metav1.TypeMeta) error {
	want, got := r.BodyKind(), meta.GroupVersionKind()
	if got.Kind == "" || meta.APIVersion == "" || got == want {
		return nil
	}
	if r.Subresource == scaleSubresource || got.GroupVersion() != want.GroupVersion() {
		return runtime.NewNotRegisteredErrForKind(schemeName, got)
	}
	return fmt.Errorf("unable to decode %s into %s", got, want)
}

// staysCustom returns an error if a patch has changed or removed the kind or apiVersion of a custom
// resource.
func (r *Request) staysCustom(live Tree, meta metav1.TypeMeta) error {
	return mustBe(r.BodyKind(), metaString(live, "name"), meta)
}

func mustBe(want schema.GroupVersionKind, name string, meta metav1.TypeMeta) error {
	got := meta.GroupVersionKind()
	var errs field.ErrorList
	if got.Kind != want.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), got.Kind, "must be "+want.Kind))
	}
	if version := want.GroupVersion().String(); meta.APIVersion != version {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), meta.APIVersion, "must be "+version))
	}
	if len(errs) == 0 {
		return nil
	}
	return causes.Invalid(got.GroupKind(), name, errs)
}

func (r *Request) strategicPatch(data []byte) (func(Tree) (Tree, error), error) {
	meta := r.BodyModel().PatchMeta()
	if meta == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "strategic merge patch is not supported for this kind", 0, false)
	}
	var strict []error
	patch := map[string]any{}
	var err error
	if r.FieldValidation != metav1.FieldValidationIgnore {
		strict, err = json.UnmarshalStrict(data, &patch)
	} else {
		err = json.UnmarshalCaseSensitivePreserveInts(data, &patch)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(live Tree) (Tree, error) {
		if strategicWork(live, patch) > maxStrategicWork {
			return nil, apierrors.NewRequestEntityTooLargeError("the lists of objects in the strategic merge patch are too long to merge: use server-side apply, or an update")
		}
		patched, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(live), runtime.DeepCopyJSON(patch), meta)
		if err != nil {
			return nil, strategicError(err)
		}
		refuse := func(err error) error { return badPatch(fmt.Sprintf("%+v", patch), err) }
		var unknown []error
		obj, err := r.BodyModel().Normalise(patched, r.strictErrors(&unknown))
		if err != nil {
			return nil, refuse(err)
		}
		if err := r.reportStrict(append(strict, unknown...), refuse); err != nil {
			return nil, err
		}
		return obj, nil
	}, nil
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return err
}

// badPatch returns the error for a patch whose result is not an object of the kind.
func badPatch(value string, err error) error {
	return causes.Invalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())})
}

// applyPatch returns the function that server-side apply consists of.
func (r *Request) applyPatch(manager *fields.Manager, p Patch) (func(Tree) (Tree, error), error) {
	applied, repeated, err := decodeApplied(p.Data)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return func(live Tree) (Tree, error) {
		if live == nil {
			live = blank(r.BodyModel())
		}
		result, err := manager.Apply(typed(r, live), applied, r.Manager, p.Force)
		if err != nil {
			return nil, err
		}
		if repeated != nil && r.FieldValidation != metav1.FieldValidationIgnore {
			err := r.reportStrict([]error{repeated}, func(error) error {
				return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", repeated))
			})
			if err != nil {
				return nil, err
			}
		}
		return complete(r.BodyModel(), result)
	}, nil
}

// complete fills in the defaults of an applied object.
func complete(m Decoder, obj Tree) (Tree, error) {
	if m, ok := m.(Completer); ok {
		return m.Complete(obj)
	}
	return m.Normalise(obj, nil)
}

// decodeApplied decodes the body of an apply request, YAML or JSON. repeated is the error for keys
// that occur more than once, in the words of the YAML decoder, which Kubernetes uses for both.
func decodeApplied(data []byte) (applied Tree, repeated, err error) {
	errs, err := json.UnmarshalStrict(data, &applied)
	switch {
	case err == nil && applied != nil && len(errs) == 0:
		return applied, nil, nil
	case err == nil && applied != nil:
		return applied, yaml.UnmarshalStrict(data, &map[string]any{}), nil
	}
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, nil, fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	applied = Tree{}
	if err := json.UnmarshalCaseSensitivePreserveInts(converted, &applied); err != nil {
		return nil, nil, fmt.Errorf("error unmarshaling JSON: while decoding JSON: %w", err)
	}
	if applied == nil { // an empty document
		applied = Tree{}
	}
	return applied, yaml.UnmarshalStrict(data, &map[string]any{}), nil
}
