package resource

import (
	"context"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// The object that a mutator returns is not treated like a request body. An object of a built-in
// kind is decoded again, by the model of the kind that it names then. A custom resource is kept as
// it is, except that defaults are set: later admission and validation see its unknown fields and
// nulls, and they are stored. Only responses and reads omit them.

// Decode decodes the JSON of an object that a mutator has changed. kind and v are those in which
// the mutator got it. Unless strict is nil, an error for each unknown field of a built-in kind is
// appended to it. A custom resource has no new defaults yet, see [Admitted.Default].
func (a *Admitted) Decode(data []byte, kind schema.GroupVersionKind, v *Version, strict *[]error) (Tree, error) {
	named, err := serializer.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, err
	}
	if a.Request.customBody() {
		return decodeRaw(data)
	}
	model := Decoder(v.Model)
	if kind == a.Kind {
		model = a.Request.BodyModel()
	}
	if named.Kind == "" {
		named.Kind = kind.Kind
	}
	if named.Version == "" && (named.Group == "" || named.Group == kind.Group) {
		named.Group, named.Version = kind.Group, kind.Version
	}
	if *named != kind {
		if model, err = a.decoder(*named); err != nil {
			return nil, err
		}
	}
	obj := Tree{}
	if model == nil {
		err = json.UnmarshalCaseSensitivePreserveInts(data, &obj)
	} else {
		obj, err = model.Decode(data, strict)
	}
	if err != nil {
		return nil, err
	}
	obj["apiVersion"], obj["kind"] = named.GroupVersion().String(), named.Kind
	return obj, nil
}

// decodeRaw decodes a custom resource as it is.
func decodeRaw(data []byte) (Tree, error) {
	obj := Tree{}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		return nil, err
	}
	if kind, _ := obj["kind"].(string); kind == "" {
		return nil, runtime.NewMissingKindErr(string(data))
	}
	return obj, nil
}

// decoder returns the decoder of a built-in kind. Nil stands for kinds that are known and are not
// resources, such as lists, which no object can become.
func (a *Admitted) decoder(named schema.GroupVersionKind) (Decoder, error) {
	known := func(kind string) *Version {
		if a.kinds == nil {
			return nil
		}
		d := a.kinds.Kind(schema.GroupKind{Group: named.Group, Kind: kind})
		if d == nil || d.Custom || (named.Group == definitions) != (a.Request.Definition.Group == definitions) {
			return nil // another server of Kubernetes serves it
		}
		return d.Version(named.GroupVersion())
	}
	if v := known(named.Kind); v != nil {
		return v.Model, nil
	}
	item, isList := strings.CutSuffix(named.Kind, "List")
	if isList && known(item) != nil || metaKinds[named.Kind] {
		return nil, nil
	}
	return nil, runtime.NewNotRegisteredErrForKind(schemeName, named)
}

// metaKinds are the kinds of meta/v1 that every version of Kubernetes' scheme has.
var metaKinds = map[string]bool{
	"Status": true, "List": true, "WatchEvent": true, "ListOptions": true, "GetOptions": true,
	"CreateOptions": true, "UpdateOptions": true, "PatchOptions": true, "DeleteOptions": true,
}

// Default sets the defaults of a custom resource that a mutator has changed: those of the version
// that it names. It returns obj itself, and leaves one of another kind as it is. Mutators call it
// for each object that they have changed: from then on Object may not be normalised.
func (a *Admitted) Default(obj Tree) (Tree, error) {
	if !a.Request.customBody() {
		return obj, nil
	}
	a.Raw = true
	named, d := namedKind(obj), a.Request.Definition
	if named.Kind != d.Kind {
		return obj, nil
	}
	if v := d.AnyVersion(named.GroupVersion()); v != nil {
		if model, ok := v.Model.(Defaulter); ok {
			return model.Default(obj)
		}
	}
	return obj, nil
}

// Restore converts an object that mutators have left to the version of the request, and uses it up.
// A custom resource of another kind is left to its validation. The errors are those of Kubernetes'
// conversion, without a status.
func (a *Admitted) Restore(ctx context.Context, obj Tree) (Tree, error) {
	named, d, to := namedKind(obj), a.Request.Definition, a.Request.Version
	if a.Request.customBody() {
		gv := named.GroupVersion()
		if gv == a.Kind.GroupVersion() {
			return obj, nil
		}
		if gv.Group != a.Kind.Group {
			return nil, fmt.Errorf("%s is unstructured and is not suitable for converting to %q", named, a.Kind.GroupVersion())
		}
		from := d.AnyVersion(gv)
		if from == nil {
			return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", gv)
		}
		obj, err := d.Translate(ctx, obj, from, to)
		if err == nil {
			obj["kind"] = named.Kind
		}
		return obj, err
	}
	if named == a.Kind {
		return obj, nil
	}
	if from := d.Version(named.GroupVersion()); from != nil && named.Kind == d.Kind && a.Kind == d.GroupVersionKind(to) {
		obj, err := d.Translate(ctx, obj, from, to)
		if err != nil {
			return nil, err
		}
		return to.Model.Normalise(obj, nil)
	}
	return nil, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", named.Version, named.Kind, internalPackage(a.Kind.Group), a.Kind.Kind)
}

// namedKind returns the kind that an object names.
func namedKind(obj Tree) schema.GroupVersionKind {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// wrongKind returns the error of a custom resource that names another kind than its definition.
func wrongKind(d *Definition, obj Tree) field.ErrorList {
	if kind := namedKind(obj).Kind; kind != d.Kind {
		return field.ErrorList{field.Invalid(field.NewPath("kind"), kind, "must be "+d.Kind)}
	}
	return nil
}

// noObjectMeta returns the error of metadata that is not an ObjectMeta.
func noObjectMeta(obj Tree) field.ErrorList {
	m, _ := obj["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &metav1.ObjectMeta{}); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, err.Error())}
	}
	return nil
}

// encodeRaw returns the object to store for a custom resource in its storage version that is not
// normalised. It is normalised whenever it is read, under the schema of that time. Its metadata,
// which is valid, is stored normalised.
func encodeRaw(v *Version, obj Tree) (_ Tree, stamped uint64, err error) {
	normal, err := v.Model.Normalise(runtime.DeepCopyJSON(obj), nil)
	if err != nil {
		return nil, 0, err
	}
	obj["metadata"] = normal["metadata"]
	if object.Equal(obj, normal) {
		return obj, stamp(v), nil
	}
	return obj, 0, nil
}
