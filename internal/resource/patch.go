package resource

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
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

	"github.com/kapok-dev/kapok/internal/manage"
	"github.com/kapok-dev/kapok/internal/object"
)

// A Patch is the body of a patch request.
type Patch struct {
	Type  types.PatchType
	Data  []byte
	Force bool // apply takes fields over from other managers
}

// maxJSONPatchOperations is what Kubernetes allows a JSON patch to hold.
const maxJSONPatchOperations = 10000

// Patch changes an object, or the part of it that a subresource shows. Applying
// creates an object that is not there.
func (s *Store) Patch(ctx context.Context, r *Request, p Patch) (Result, error) {
	apply, err := s.patcher(ctx, r, p)
	if err != nil {
		return Result{}, err
	}
	if r.Subresource == scaleSubresource {
		return s.writeScale(ctx, r, "", apply)
	}
	return s.change(ctx, r, change{
		allowCreate: p.Type == types.ApplyPatchType && r.Subresource == "",
		apply:       apply,
	})
}

// patcher returns what makes the patched object of the live one, nil if there is
// none, and notes in its managedFields who changed what.
func (s *Store) patcher(ctx context.Context, r *Request, p Patch) (func(Tree) (Tree, error), error) {
	manager, err := s.fieldManager(ctx, r)
	if err != nil {
		return nil, err
	}
	var patch func(live Tree) (Tree, error) // leaves live as it is
	switch p.Type {
	case types.JSONPatchType:
		patch, err = r.jsonPatch(p.Data)
	case types.MergePatchType:
		patch, err = r.mergePatch(p.Data)
	case types.StrategicMergePatchType:
		patch, err = r.strategicPatch(p.Data)
	case types.ApplyPatchType:
		return r.applyPatch(manager, p)
	default:
		err = fmt.Errorf("there is no patch type %q", p.Type)
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

func (r *Request) jsonPatch(data []byte) (func(Tree) (Tree, error), error) {
	var strict []error
	if r.FieldValidation != metav1.FieldValidationIgnore {
		var operations []jsonPatchOp
		errs, err := json.UnmarshalStrict(data, &operations)
		if err != nil {
			// The name of the type is part of what clients see.
			text := strings.Replace(err.Error(), "resource.jsonPatchOp", "handlers.jsonPatchOp", 1)
			return nil, apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for _, e := range errs {
			strict = append(strict, fmt.Errorf("json patch %v", e))
		}
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(patch) > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(patch)))
	}
	return r.patchJSON(strict, func(current []byte) ([]byte, error) {
		patched, err := ApplyJSONPatch(patch, current)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return patched, nil
	}), nil
}

// maxJSONPatchCopy bounds, in bytes, what the copy operations of a JSON patch may
// add up to: each can double the object. It is what kube-apiserver allows.
const maxJSONPatchCopy = 3 << 20

// ApplyJSONPatch applies a patch to a JSON document, within bounds on what copies add up to: it applies the operations up
// to and including one copy at a time.
func ApplyJSONPatch(patch jsonpatch.Patch, doc []byte) ([]byte, error) {
	copied, work := 0, 0
	for len(patch) > 0 {
		n := 1 + slices.IndexFunc(patch, func(op jsonpatch.Operation) bool { return op.Kind() == "copy" })
		if n == 0 {
			n = len(patch)
		}
		patched, err := patch[:n].Apply(doc)
		if err != nil {
			return nil, err
		}
		if op := patch[n-1]; op.Kind() == "copy" {
			copied += sizeAt(doc, op)
			if work += len(doc); copied > maxJSONPatchCopy || work > maxJSONPatchWork {
				return nil, jsonpatch.NewAccumulatedCopySizeError(maxJSONPatchCopy, int64(max(copied, work)))
			}
		}
		doc, patch = patched, patch[n:]
	}
	return doc, nil
}

// maxJSONPatchWork bounds, in bytes, how much is parsed for the sake of copies.
const maxJSONPatchWork = 64 << 20

// sizeAt is the size in doc of what an operation copies; 0 if it is not there, which
// the operation itself finds out.
func sizeAt(doc []byte, op jsonpatch.Operation) int {
	from, err := op.From()
	if err != nil {
		return 0
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for key := range strings.SplitSeq(strings.TrimPrefix(from, "/"), "/") {
		if from == "" {
			break
		}
		var members map[string]stdjson.RawMessage
		var items []stdjson.RawMessage
		i, err := strconv.Atoi(key)
		switch {
		case stdjson.Unmarshal(doc, &members) == nil:
			doc = members[unescape.Replace(key)]
		case err == nil && stdjson.Unmarshal(doc, &items) == nil && i >= 0 && i < len(items):
			doc = items[i]
		default:
			return 0
		}
	}
	return len(doc)
}

// jsonPatchOp is an operation of a JSON patch, to find fields that it does not have.
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
		patched, err := jsonpatch.MergePatch(current, data)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return patched, err
	}
	switch {
	case err != nil || patch == nil: // the library has the words for it
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

// patchTree judges a custom resource that has been patched, which needs no encoding.
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
	if err := r.judgeStrict(append(strict, unknown...), refuse); err != nil {
		return nil, err
	}
	return obj, nil
}

// patchJSON makes a patch of one that works on encoded objects.
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

// decodePatched decodes and judges what a patch has made of an object.
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
	if err := r.judgeStrict(append(strict, unknown...), refuse); err != nil {
		return nil, err
	}
	return obj, nil
}

// declared encodes an object as Kubernetes shows it in messages: with the fields
// of a built-in kind in the order of its Go type.
func (r *Request) declared(obj Tree) []byte {
	var v any = obj
	if into := r.BodyModel().New(); into != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(obj, into) == nil {
		v = into
	}
	data, err := stdjson.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// sameKind refuses a patch that turns the object into one of another kind.
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

// StaysKind refuses what admission has made of an object, as JSON, if it is not of the wanted kind any more.
func (r *Request) StaysKind(want schema.GroupVersionKind, name string, data []byte) error {
	var meta metav1.TypeMeta
	if err := stdjson.Unmarshal(data, &meta); err != nil {
		return apierrors.NewInternalError(err)
	}
	got := meta.GroupVersionKind()
	switch {
	case r.customBody() && meta.Kind == "":
		return apierrors.NewInternalError(runtime.NewMissingKindErr(string(data)))
	case r.customBody():
		return mustBe(want, name, meta)
	case got.Kind == "" || meta.APIVersion == "" || got == want:
		return nil
	}
	return fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", got.Version, got.Kind, internalPackage(want.Group), want.Kind)
}

// staysCustom refuses a patch that turns a custom resource into one of another kind, or does not say which.
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
	return apierrors.NewInvalid(got.GroupKind(), name, errs)
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
		if err := r.judgeStrict(append(strict, unknown...), refuse); err != nil {
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

// badPatch is the error for a patch whose outcome is not an object of the kind.
func badPatch(value string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())})
}

// applyPatch is server-side apply.
func (r *Request) applyPatch(manager *manage.Manager, p Patch) (func(Tree) (Tree, error), error) {
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
			err := r.judgeStrict([]error{repeated}, func(error) error {
				return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", repeated))
			})
			if err != nil {
				return nil, err
			}
		}
		return r.BodyModel().Normalise(result, nil)
	}, nil
}

// decodeApplied decodes the body of an apply request, YAML or JSON. repeated tells
// of keys that occur more than once, in the words of the YAML decoder, which
// Kubernetes uses for both.
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
