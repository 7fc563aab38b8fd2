package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// coercer converts apiVersion, kind and metadata of embedded resources to their valid form.
type coercer struct {
	unknown *[]string // receives the paths of fields that ObjectMeta does not know; may be nil
	drop    bool      // drop malformed fields instead of rejecting them
	root    bool      // treat the root as an embedded resource, too
}

// run coerces the resources in obj. It returns a *field.Error.
func (w *coercer) run(obj map[string]any, n *node) error {
	if !n.embeds && !w.root {
		return nil
	}
	before := 0
	if w.unknown != nil {
		before = len(*w.unknown)
	}
	if err := w.value(obj, n, nil); err != nil {
		return err
	}
	if w.unknown != nil {
		slices.Sort((*w.unknown)[before:])
	}
	return nil
}

func (w *coercer) value(v any, n *node, at *path) *field.Error {
	root := at == nil && w.root
	if n == nil || !n.embeds && !root {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		metadata := v["metadata"] // unchanged: schemas below it also apply to the parts that are replaced
		if n.embedded || root {
			if err := w.resource(v, at); err != nil {
				return err
			}
		}
		step := path{up: at}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			step.key, step.kind = k, stepField
			c := n.field(k)
			if c == nil {
				c, step.kind = n.additional, stepKey
			}
			child := v[k]
			if k == "metadata" {
				child = metadata
			}
			if err := w.value(child, c, &step); err != nil {
				return err
			}
		}
	case []any:
		step := path{up: at, kind: stepIndex}
		for i, item := range v {
			step.index = i
			if err := w.value(item, n.items, &step); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *coercer) resource(obj map[string]any, at *path) *field.Error {
	for _, k := range []string{"apiVersion", "kind"} {
		v, found := obj[k]
		if _, ok := v.(string); !found || ok {
			continue
		}
		if !w.drop {
			return field.Invalid(at.field().Child(k), v, "must be a string")
		}
		delete(obj, k)
	}
	v, found := obj["metadata"]
	if !found {
		return nil
	}
	meta, err := w.decode(v, at)
	if err != nil {
		if w.drop {
			return nil // not an object: validation reports it
		}
		return field.Invalid(at.field().Child("metadata"), v, err.Error())
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return field.Invalid(at.field().Child("metadata"), v, err.Error())
	}
	if meta.CreationTimestamp.IsZero() {
		delete(m, "creationTimestamp")
	}
	obj["metadata"] = m
	return nil
}

// decode decodes metadata. With drop, it keeps the valid fields.
func (w *coercer) decode(v any, at *path) (*metav1.ObjectMeta, error) {
	meta := &metav1.ObjectMeta{}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	strict, err := kjson.UnmarshalStrict(b, meta)
	if err == nil {
		w.record(strict, at)
		return meta, nil
	}
	fields, ok := v.(map[string]any)
	if !w.drop || !ok {
		return nil, err
	}
	meta = &metav1.ObjectMeta{}
	for k, v := range fields {
		b, err := json.Marshal(map[string]any{k: v})
		if err != nil || json.Unmarshal(b, &metav1.ObjectMeta{}) != nil {
			continue
		}
		_ = json.Unmarshal(b, meta) // has succeeded before
	}
	return meta, nil
}

func (w *coercer) record(strict []error, at *path) {
	if w.unknown == nil {
		return
	}
	for _, err := range strict {
		if err, ok := err.(kjson.FieldError); ok {
			*w.unknown = append(*w.unknown, at.field().Child("metadata").String()+"."+err.FieldPath())
		}
	}
}

// validateEmbedded validates apiVersion, kind and metadata of the embedded resources in v, whose
// schema is n.
func validateEmbedded(v any, n *node, at *path) (errs field.ErrorList) {
	if n == nil || !n.embeds {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		if n.embedded {
			errs = validateResource(v, at.field())
		}
		step := path{up: at}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			step.key, step.kind = k, stepField
			c := n.field(k)
			if c == nil {
				c, step.kind = n.additional, stepKey
			}
			errs = append(errs, validateEmbedded(v[k], c, &step)...)
		}
	case []any:
		step := path{up: at, kind: stepIndex}
		for i, item := range v {
			step.index = i
			errs = append(errs, validateEmbedded(item, n.items, &step)...)
		}
	}
	return errs
}

func validateResource(obj map[string]any, at *field.Path) (errs field.ErrorList) {
	for _, k := range []string{"apiVersion", "kind"} {
		if _, found := obj[k]; !found {
			errs = append(errs, field.Required(at.Child(k), ""))
		}
	}
	for _, k := range []string{"apiVersion", "kind"} {
		v, found := obj[k]
		if !found {
			continue
		}
		s, ok := v.(string)
		switch problem := ""; {
		case !ok:
			errs = append(errs, field.Invalid(at.Child(k), v, "must be a string"))
		case s == "":
			errs = append(errs, field.Invalid(at.Child(k), s, "must not be empty"))
		default:
			if k == "kind" {
				problem = kindProblem(s)
			} else if _, err := runtimeschema.ParseGroupVersion(s); err != nil {
				problem = err.Error()
			}
			if problem != "" {
				errs = append(errs, field.Invalid(at.Child(k), s, problem))
			}
		}
	}
	if v, found := obj["metadata"]; found {
		errs = append(errs, validateMetadata(v, at.Child("metadata"))...)
	}
	return errs
}

func kindProblem(kind string) string {
	if errs := validation.IsDNS1035Label(strings.ToLower(kind)); len(errs) > 0 {
		return fmt.Sprintf("may have mixed case, but should otherwise match: %s", strings.Join(errs, ","))
	}
	return ""
}

func validateMetadata(v any, at *field.Path) field.ErrorList {
	var meta metav1.ObjectMeta
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, v, err.Error())}
	}
	if meta.Name == "" {
		meta.Name = "fakename" // an embedded resource needs no name, but the validation of ObjectMeta requires one
	}
	segment := func(name string, prefix bool) []string {
		if prefix {
			return content.IsPathSegmentPrefix(name)
		}
		return content.IsPathSegmentName(name)
	}
	return apivalidation.ValidateObjectMetaDeclaratively(context.Background(), operation.Create, &meta, nil,
		meta.Namespace != "", segment, at, true)
}
