package resource

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/bits"
	"time"

	codec "github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Form returns the bytes of an object in a served version and media type. They are encoded once for
// each schema that the resource has had. Where a webhook converts, the object must be one that a
// Store has returned for that version.
func Form(d *Definition, v *Version, o *object.Object, media object.Media) (object.Form, error) {
	return formOf(d, v, o, media, nil, true)
}

// Form returns the bytes of the object of a result, as the function Form does. The protobuf of an
// object that has just been written is made from the tree that was written: decoding that again
// would cost half as much as the write.
func (r Result) Form(d *Definition, v *Version, media object.Media) (object.Form, error) {
	if media != object.Protobuf || v != r.writtenIn {
		return formOf(d, v, r.Object, media, nil, true)
	}
	return formOf(d, v, r.Object, media, r.written, true)
}

// IsWritten reports whether the object has just been written in a version. If so, FormOnce may be
// called, once.
func (r Result) IsWritten(v *Version) bool { return r.written != nil && v == r.writtenIn }

// FormOnce is Form in protobuf for bytes that nothing else is going to need: the object does not
// keep them.
func (r Result) FormOnce(d *Definition, v *Version) (object.Form, error) {
	return formOf(d, v, r.Object, object.Protobuf, r.written, false)
}

// formOf uses up the tree of the object in the version, if it is not nil.
func formOf(d *Definition, v *Version, o *object.Object, media object.Media, tree Tree, keep bool) (object.Form, error) {
	if media == object.JSON && o.Schema == stamp(v) {
		return o.Stored(), nil
	}
	key := object.FormKey{Schema: stamp(v), Version: v.Name, Media: media}
	if from := storedIn(d, o); from != v {
		// It is normalised in the version from before it is converted.
		key.Schema ^= bits.RotateLeft64(stamp(from), 1)
	}
	encode := func(o *object.Object) (object.Form, error) {
		obj, err := tree, error(nil)
		if obj == nil {
			obj, err = decodeIn(d, v, o)
		}
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
	}
	if !keep {
		return encode(o)
	}
	return o.Form(key, encode)
}

// protobufForm encodes a tree, which has its resourceVersion, as protobuf in the envelope of
// Kubernetes.
func protobufForm(d *Definition, v *Version, obj Tree, media object.Media) (object.Form, error) {
	into, gvk := v.Model.New(), d.GroupVersionKind(v)
	if media == object.PartialProtobuf {
		into, gvk = &metav1.PartialObjectMetadata{}, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
		obj = Tree{"metadata": metadata(obj)}
	}
	if into == nil {
		return object.Form{}, fmt.Errorf("%s has no protobuf form", gvk)
	}
	if err := codec.FromTree(obj, into); err != nil {
		return object.Form{}, err
	}
	into.GetObjectKind().SetGroupVersionKind(gvk)
	encoded, err := runtime.Encode(protobuf.NewSerializer(nil, nil), into)
	if err != nil {
		return object.Form{}, err
	}
	return object.Form{Bytes: encoded, Splice: -1}, nil
}

// TreeOf decodes an object in a version into a new tree, with its resourceVersion. Where a webhook
// converts, the object must be one that a Store has returned for that version.
func TreeOf(d *Definition, v *Version, o *object.Object) (Tree, error) {
	obj, err := decodeIn(d, v, o)
	if err != nil {
		return nil, err
	}
	if o.Revision > 0 {
		metadata(obj)["resourceVersion"] = o.Revision.String()
	}
	return obj, nil
}

// storedIn returns the version in which an object is stored without decoding it: canonical JSON
// begins with the apiVersion. If that is unknown, it returns the storage version.
func storedIn(d *Definition, o *object.Object) *Version {
	rest, ok := bytes.CutPrefix(o.Raw, []byte(`{"apiVersion":"`))
	if apiVersion, _, ended := bytes.Cut(rest, []byte{'"'}); ok && ended {
		if gv, err := schema.ParseGroupVersion(string(apiVersion)); err == nil {
			if v := d.AnyVersion(gv); v != nil {
				return v
			}
		}
	}
	return d.Storage
}

// stamp identifies the version, and its schema, in which an object is stored. An object with the
// current one is served as it is stored.
func stamp(v *Version) uint64 {
	h := fnv.New64a()
	h.Write([]byte(v.Group + v.Name)) // never fails
	return v.Model.Fingerprint() ^ h.Sum64()
}

// Stored returns an object of complete JSON that is normalised in the storage version. The object
// keeps raw, which must not change from then on.
func (d *Definition) Stored(key object.Key, raw []byte, written time.Time) (*object.Object, error) {
	return object.Parse(key, raw, stamp(d.Storage), written)
}

func unstructuredString(obj Tree, key string) string {
	s, _, _ := unstructured.NestedString(obj, key)
	return s
}
