package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/kapok-dev/kapok/internal/object/jsonpatch"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// patched returns a copy of the object with a mutation. value is the result of the mutation's
// expression.
func (v *shown) patched(ctx context.Context, kind admissionv1.PatchType, value ref.Val) (resource.Tree, error) {
	var obj resource.Tree
	var err error
	if kind == admissionv1.PatchTypeJSONPatch {
		obj, err = v.jsonPatched(ctx, value)
	} else {
		obj, err = v.configured(value)
	}
	if err != nil {
		return nil, err
	}
	return v.Default(obj)
}

// model returns the model of the object.
func (v *shown) model() resource.Model {
	if v.ownBody() {
		return v.Request.BodyModel()
	}
	return v.as.Version.Model
}

// configured merges an apply configuration into the object.
func (v *shown) configured(value ref.Val) (resource.Tree, error) {
	configuration, ok := value.(*dynamic.ObjectVal)
	if !ok { // the compiler has checked the type
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	if err := configuration.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	fields, ok := configuration.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", value)
	}
	fields = runtime.DeepCopyJSON(fields) // it can share parts with the object
	fields["apiVersion"], fields["kind"] = v.as.Kind.ToAPIVersionAndKind()
	typeOf, err := v.model().FieldTypes()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	t := typeOf(v.as.Kind)
	if t == nil {
		return nil, fmt.Errorf("error applying patch: failed to convert patch object to typed object: no corresponding type for %v", v.as.Kind)
	}
	obj, err := t.Merge(v.tree, fields)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	if v.Request.Definition.Custom && !v.ownBody() {
		return obj, nil
	}
	return v.model().Normalise(obj, nil)
}

// jsonPatched applies a JSON patch to the object. A failed test in the patch leaves the object
// unchanged.
func (v *shown) jsonPatched(ctx context.Context, value ref.Val) (resource.Tree, error) {
	patch, err := patchOf(value)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(v.tree)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	after, err := resource.ApplyJSONPatch(ctx, patch, before, nil)
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		after = before
	case err != nil:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	var strict []error
	kind := v.as.Kind
	if v.ownBody() {
		kind = v.Kind
	}
	obj, err := v.Decode(after, kind, v.as.Version, &strict)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(strict) > 0 {
		return nil, apierrors.NewInternalError(runtime.NewStrictDecodingError(strict))
	}
	return obj, nil
}

// patchOf converts the list that an expression returned to a JSON patch.
func patchOf(value ref.Val) (jsonpatch.Patch, error) {
	list, ok := value.(traits.Lister)
	if !ok { // the compiler has checked the type
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	patch := jsonpatch.Patch{}
	for i := list.Iterator(); i.HasNext() == types.True; {
		native, err := i.Next().ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
		if err != nil {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		step, ok := native.(*mutation.JSONPatchVal)
		if !ok {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", native)
		}
		operation := jsonpatch.Operation{}
		set := func(name string, value []byte) { operation[name] = (*json.RawMessage)(&value) }
		set("op", strconv.AppendQuote(nil, step.Op))
		set("path", strconv.AppendQuote(nil, step.Path))
		if step.From != "" {
			set("from", strconv.AppendQuote(nil, step.From))
		}
		if step.Val != nil {
			value, err := jsonOf(step.Val)
			if err != nil {
				return nil, err
			}
			set("value", value)
		}
		patch = append(patch, operation)
	}
	return patch, nil
}

// jsonOf encodes the value of an expression.
func jsonOf(v ref.Val) ([]byte, error) {
	if obj, ok := v.(*dynamic.ObjectVal); ok {
		if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	native, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	text, err := json.Marshal(native)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	return text, nil
}
