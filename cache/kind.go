package cache

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/client"
	codec "github.com/kapok-dev/kapok/client/typed"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
)

// A form is the Go type in which objects of a kind are read.
type form int

const (
	typed form = iota
	untyped
	metadataOnly
)

// formOf is the form of an object or a list.
func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case runtime.Unstructured:
		return untyped
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	default:
		return typed
	}
}

// A kind decodes and encodes the objects of a kind in a form.
type kind struct {
	gvk     schema.GroupVersionKind
	form    form
	scheme  *runtime.Scheme
	storage Storage
	shared  bool // reads share objects with the cache by default
	events  bool // handlers and index functions share objects with the cache
	packer  packer
	recent  recent
	mutated func(kind schema.GroupVersionKind, key client.ObjectKey, diff string) // nil: is not looked for
}

// An entry is an object in the store. It is immutable once it is there.
type entry struct {
	identity
	protobuf bool
	bare     bool // the bytes are without the resourceVersion
	packed
	object client.Object // instead of the bytes, with Decoded
	values [][]string    // where it is in each index of the store
}

func (e *entry) key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.namespace, Name: e.name}
}

// clone returns a copy whose values can be set.
func (e *entry) clone() *entry {
	c := *e
	return &c
}

// A message is a Go type with a protobuf form.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// newEntry returns an entry that shares no memory with the bytes.
func (k *kind) newEntry(o encoded) (*entry, error) {
	s, err := o.scan()
	if err != nil {
		return nil, fmt.Errorf("object of kind %s: %w", k.gvk.Kind, err)
	}
	if s.name == "" {
		return nil, fmt.Errorf("object of kind %s: it has no name", k.gvk.Kind)
	}
	e := &entry{identity: s.identity.clone(), protobuf: o.protobuf}
	if k.storage == Decoded {
		e.data = slices.Clone(o.bytes) // for a moment
	} else {
		e.packed = k.packer.pack(o.bytes)
	}
	return e, nil
}

// clone copies the strings into memory of their own.
func (i identity) clone() identity {
	all := i.namespace + i.name + i.uid + i.revision
	for _, s := range []*string{&i.namespace, &i.name, &i.uid, &i.revision} {
		*s, all = all[:len(*s)], all[len(*s):]
	}
	return i
}

// read calls f with the bytes of an entry, which are valid until f returns.
func (k *kind) read(e *entry, f func(encoded) error) error {
	return k.packer.unpack(e.packed, func(b []byte) error { return f(encoded{bytes: b, protobuf: e.protobuf}) })
}

// new returns an empty object.
func (k *kind) new() (client.Object, error) {
	switch k.form {
	case untyped:
		return &unstructured.Unstructured{}, nil
	case metadataOnly:
		return &metav1.PartialObjectMetadata{}, nil
	}
	obj, err := k.scheme.New(k.gvk)
	if err != nil {
		return nil, err
	}
	o, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	return o, nil
}

// media returns the media types to request.
func (k *kind) media() string {
	const partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	switch k.form {
	case metadataOnly:
		return "application/vnd.kubernetes.protobuf" + partial + ",application/json" + partial + ",application/json"
	case typed:
		if obj, err := k.new(); err == nil {
			if _, ok := obj.(message); ok {
				return "application/vnd.kubernetes.protobuf,application/json"
			}
		}
	}
	return "application/json"
}

// share returns an object that others read, too. It must not be changed.
func (k *kind) share(e *entry) (client.Object, error) { return k.shareAnd(e, true) }

// shareAnd is share, and keeps the object for the next readers or not.
func (k *kind) shareAnd(e *entry, keep bool) (client.Object, error) {
	if e.object != nil {
		return e.object, nil
	}
	if obj := k.recent.get(e); obj != nil {
		return obj, nil
	}
	obj, err := k.decode(e)
	if err != nil {
		return nil, err
	}
	if !keep && k.mutated == nil {
		return obj, nil
	}
	kept, dropped := k.recent.put(e, obj)
	k.detectMutations(dropped)
	return kept, nil
}

// detectMutations compares objects that were shared with their entries.
func (k *kind) detectMutations(shared map[*entry]client.Object) {
	if k.mutated == nil {
		return
	}
	for e, obj := range shared {
		want, err := k.decode(e)
		if err == nil && !equality.Semantic.DeepEqual(obj, want) {
			k.mutated(k.gvk, e.key(), diff.Diff(want, obj))
		}
	}
}

// decode returns an object that the caller owns.
func (k *kind) decode(e *entry) (client.Object, error) {
	if e.object != nil {
		return e.object.DeepCopyObject().(client.Object), nil
	}
	obj, err := k.new()
	if err != nil {
		return nil, err
	}
	return obj, k.decodeInto(e, obj)
}

// decodeInto overwrites an object, which may be of any type of the kind.
func (k *kind) decodeInto(e *entry, into client.Object) error { return k.readInto(e, into, false) }

// readInto is decodeInto. If shared is set, the result may share pointers with the cache.
func (k *kind) readInto(e *entry, into client.Object, shared bool) error {
	to := reflect.ValueOf(into)
	if e.object == nil && !shared {
		to.Elem().SetZero()
		if err := k.read(e, func(o encoded) error { return k.unmarshal(o, into) }); err != nil {
			return err
		}
		if e.bare {
			into.SetResourceVersion(e.revision)
		}
		return nil
	}
	obj, err := k.share(e)
	if err != nil {
		return err
	}
	from := reflect.ValueOf(obj)
	if !from.Type().AssignableTo(to.Type()) {
		if e.object == nil {
			return k.decodeInto(e, into) // any type of the kind will do
		}
		return fmt.Errorf("the cache holds %T, and cannot return %T", obj, into)
	}
	if !shared {
		from = reflect.ValueOf(obj.DeepCopyObject())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// unmarshal decodes into an empty object.
func (k *kind) unmarshal(o encoded, into client.Object) error {
	var err error
	u, isUntyped := into.(*unstructured.Unstructured)
	m, isMessage := into.(message)
	switch {
	case o.protobuf && isMessage:
		err = m.Unmarshal(o.bytes)
	case o.protobuf:
		err = fmt.Errorf("%T has no protobuf form", into)
	case isUntyped:
		u.Object, err = codec.Tree(o.bytes)
	default:
		err = codec.FromJSON(o.bytes, into)
	}
	if err != nil {
		return fmt.Errorf("object of kind %s: %w", k.gvk.Kind, err)
	}
	into.GetObjectKind().SetGroupVersionKind(k.gvk)
	return nil
}

// decodeMetadata decodes only the metadata.
func (k *kind) decodeMetadata(e *entry) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	var err error
	switch {
	case e.object != nil:
		copied := metav1.ObjectMeta{
			Name: e.object.GetName(), GenerateName: e.object.GetGenerateName(), Namespace: e.object.GetNamespace(),
			SelfLink: e.object.GetSelfLink(), UID: e.object.GetUID(), ResourceVersion: e.object.GetResourceVersion(),
			Generation: e.object.GetGeneration(), CreationTimestamp: e.object.GetCreationTimestamp(),
			DeletionTimestamp: e.object.GetDeletionTimestamp(), DeletionGracePeriodSeconds: e.object.GetDeletionGracePeriodSeconds(),
			Labels: e.object.GetLabels(), Annotations: e.object.GetAnnotations(), OwnerReferences: e.object.GetOwnerReferences(),
			Finalizers: e.object.GetFinalizers(), ManagedFields: e.object.GetManagedFields(),
		}
		copied.DeepCopyInto(&m.ObjectMeta)
	default:
		err = k.read(e, func(o encoded) error {
			if o.protobuf {
				return m.Unmarshal(o.bytes) // which skips the fields that it does not know
			}
			s, err := o.scan()
			if err != nil || s.metadata == nil {
				return err
			}
			return codec.FromJSON(s.metadata, &m.ObjectMeta)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("metadata of kind %s: %w", k.gvk.Kind, err)
	}
	if e.bare {
		m.ResourceVersion = e.revision
	}
	m.SetGroupVersionKind(k.gvk)
	return m, nil
}

// prepare returns the entry to store: transformed, and decoded with Decoded. After an error the
// entry can be stored as it is: readers get the error when they decode it.
func (k *kind) prepare(e *entry, transform TransformFunc) (*entry, error) {
	if transform == nil && k.storage != Decoded {
		return e, nil
	}
	obj, err := k.decode(e)
	if err != nil {
		return e, err
	}
	if transform != nil {
		changed, err := transform(obj)
		if err != nil {
			return e, fmt.Errorf("transform of %s: %w", e.key(), err)
		}
		var ok bool
		if obj, ok = changed.(client.Object); !ok {
			return e, fmt.Errorf("transform of %s returned %T, which is not a client.Object", e.key(), changed)
		}
	}
	kept := &entry{object: obj, identity: identity{namespace: obj.GetNamespace(), name: obj.GetName(), uid: string(obj.GetUID()),
		revision: obj.GetResourceVersion(), deleting: obj.GetDeletionTimestamp() != nil}}
	if k.storage != Decoded {
		o, err := k.encode(obj, e.protobuf)
		if err == nil {
			kept, err = k.newEntry(o)
		}
		if err != nil {
			return e, fmt.Errorf("encode %s: %w", e.key(), err)
		}
	}
	// A transform must not change the identity of an object.
	if kept.namespace != e.namespace || kept.name != e.name || kept.uid != e.uid || kept.revision != e.revision {
		return e, fmt.Errorf("transform of %s changed its name, uid or resourceVersion", e.key())
	}
	return kept, nil
}

func (k *kind) encode(obj client.Object, protobuf bool) (encoded, error) {
	if m, ok := obj.(message); ok && protobuf {
		b, err := m.Marshal()
		return encoded{bytes: b, protobuf: true}, err
	}
	b, err := stdjson.Marshal(obj)
	return encoded{bytes: b}, err
}

// matches reports whether a selector matches an object. It decodes only the labels.
func (k *kind) matches(e *entry, selector labels.Selector) (ok bool, err error) {
	if e.object != nil {
		return selector.Matches(labels.Set(e.object.GetLabels())), nil
	}
	err = k.read(e, func(o encoded) error {
		set, err := o.labels()
		ok = err == nil && selector.Matches(set)
		return err
	})
	return ok, err
}
