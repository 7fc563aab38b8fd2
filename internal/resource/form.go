package resource

import (
	"fmt"
	"hash/fnv"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Form returns the bytes of an object in a served version and media type. They
// are made once for each schema that the resource has had.
func Form(d *Definition, v *Version, o *object.Object, media object.Media) (object.Form, error) {
	if media == object.JSON && v == d.Storage && o.Schema == stamp(v) {
		return o.Stored(), nil
	}
	key := object.FormKey{Schema: stamp(v), Version: v.Name, Media: media}
	return o.Form(key, func(o *object.Object) (object.Form, error) {
		obj, err := decodeStored(d, v, o)
		if err != nil {
			return object.Form{}, err
		}
		switch media {
		case object.JSON:
			return object.Encode(obj)
		case object.PartialJSON:
			return object.Encode(Tree{
				"apiVersion": metav1.SchemeGroupVersion.String(),
				"kind":       "PartialObjectMetadata",
				"metadata":   metadata(obj),
			})
		}
		if o.Revision > 0 {
			metadata(obj)["resourceVersion"] = o.Revision.String()
		}
		return protobufForm(d, v, obj, media)
	})
}

// protobufForm encodes a tree as protobuf, complete with its resourceVersion,
// inside the envelope of Kubernetes.
func protobufForm(d *Definition, v *Version, obj Tree, media object.Media) (object.Form, error) {
	into, gvk := v.Model.New(), d.GroupVersionKind(v)
	if media == object.PartialProtobuf {
		into, gvk = &metav1.PartialObjectMetadata{}, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
		obj = Tree{"metadata": metadata(obj)}
	}
	if into == nil {
		return object.Form{}, fmt.Errorf("%s has no protobuf form", gvk)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, into); err != nil {
		return object.Form{}, err
	}
	into.GetObjectKind().SetGroupVersionKind(gvk)
	encoded, err := runtime.Encode(protobuf.NewSerializer(nil, nil), into)
	if err != nil {
		return object.Form{}, err
	}
	return object.Form{Bytes: encoded, Splice: -1}, nil
}

// TreeOf decodes an object into a tree of its own in a served version, with its
// resourceVersion.
func TreeOf(d *Definition, v *Version, o *object.Object) (Tree, error) {
	obj, err := decodeStored(d, v, o)
	if err != nil {
		return nil, err
	}
	if o.Revision > 0 {
		metadata(obj)["resourceVersion"] = o.Revision.String()
	}
	return obj, nil
}

// decodeStored decodes an object, brings it up to the schema of now where it was
// stored under another, and converts it.
func decodeStored(d *Definition, v *Version, o *object.Object) (Tree, error) {
	obj, err := o.Tree()
	if err != nil {
		return nil, err
	}
	from := d.Storage
	gv, err := schema.ParseGroupVersion(unstructuredString(obj, "apiVersion"))
	if err == nil && gv.Version != from.Name {
		// Stored when another version was the one to store.
		if was := d.anyVersion(gv.Version); was != nil {
			from = was
		}
	}
	if o.Schema != stamp(from) {
		if obj, err = from.Model.Normalise(obj, nil); err != nil {
			return nil, fmt.Errorf("normalise %s: %w", o.Key, err)
		}
	}
	if from == v {
		return obj, nil
	}
	// Defaults are those of the version that is stored, as in Kubernetes.
	if obj, err = convert(d, obj, from, v); err != nil {
		return nil, err
	}
	return v.Model.Prune(obj)
}

// anyVersion returns a version by name, served or not.
func (d *Definition) anyVersion(name string) *Version {
	if d.Storage.Name == name {
		return d.Storage
	}
	for _, v := range d.Unserved {
		if v.Name == name {
			return v
		}
	}
	return d.Version(name)
}

// convert brings a tree from one version to another, in place. The caller prunes
// or normalises it.
func convert(d *Definition, obj Tree, from, to *Version) (Tree, error) {
	if from == to {
		return obj, nil
	}
	if d.Convert != nil {
		if err := d.Convert(obj, from, to); err != nil {
			return nil, err
		}
	}
	obj["apiVersion"] = d.APIVersion(to)
	return obj, nil
}

// encode makes the object to be stored of a tree in the version of the request.
// The tree is used up.
func encode(r *Request, obj Tree) (*object.Object, error) {
	d := r.Definition
	obj["apiVersion"], obj["kind"] = d.APIVersion(r.Version), d.Kind
	if r.Version != d.Storage {
		var err error
		if obj, err = convert(d, obj, r.Version, d.Storage); err != nil {
			return nil, err
		}
		if obj, err = d.Storage.Model.Normalise(obj, nil); err != nil {
			return nil, err
		}
	}
	key := d.Key(r.Namespace, metaString(obj, "name"))
	o, err := object.New(key, obj, stamp(d.Storage), now())
	if err != nil {
		// All that a tree can have that JSON cannot comes from the client.
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// stamp identifies the schema and the version in which an object is stored.
func stamp(v *Version) uint64 {
	h := fnv.New64a()
	h.Write([]byte(v.Name)) // never fails
	return v.Model.Fingerprint() ^ h.Sum64()
}

func unstructuredString(obj Tree, key string) string {
	s, _, _ := unstructured.NestedString(obj, key)
	return s
}
