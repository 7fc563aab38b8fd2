package client

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var (
	// Apply sends the object itself as a server-side apply, zero values that Go's JSON does not
	// omit included. It needs a field owner. Client.Apply is better: see ApplyConfigurationFrom.
	Apply Patch = wholePatch(types.ApplyPatchType)
	// Merge sends the object itself as a merge patch. MergeFrom sends the difference to another.
	Merge Patch = wholePatch(types.MergePatchType)
)

// wholePatch is a patch that is the object.
type wholePatch types.PatchType

func (p wholePatch) Type() types.PatchType           { return types.PatchType(p) }
func (p wholePatch) Data(obj Object) ([]byte, error) { return json.Marshal(obj) }

// RawPatch is a patch that is there already, of one of the types of k8s.io/apimachinery/pkg/types.
func RawPatch(patchType types.PatchType, data []byte) Patch { return rawPatch{patchType, data} }

type rawPatch struct {
	patchType types.PatchType
	data      []byte
}

func (p rawPatch) Type() types.PatchType       { return p.patchType }
func (p rawPatch) Data(Object) ([]byte, error) { return p.data, nil }

// MergeFrom returns a merge patch of the changes since obj, a deep copy of the object from before
// the change. A list that has changed replaces that of the server as a whole.
func MergeFrom(obj Object) Patch { return MergeFromWithOptions(obj) }

// MergeFromWithOptions is MergeFrom with options.
func MergeFromWithOptions(obj Object, opts ...MergeFromOption) Patch {
	return newMergeFrom(types.MergePatchType, obj, opts)
}

// StrategicMergeFrom returns a strategic merge patch of the changes since obj. It merges lists by
// their keys, according to the tags patchStrategy and patchMergeKey of the Go type. Servers do not
// accept it for custom kinds.
func StrategicMergeFrom(obj Object, opts ...MergeFromOption) Patch {
	return newMergeFrom(types.StrategicMergePatchType, obj, opts)
}

// A MergeFromOption is an option of MergeFromWithOptions and StrategicMergeFrom.
type MergeFromOption interface{ ApplyToMergeFrom(*MergeFromOptions) }

// MergeFromOptions are all options of MergeFrom and StrategicMergeFrom.
type MergeFromOptions struct {
	// OptimisticLock makes the server reject the patch as a conflict if its object does not have the
	// resourceVersion of the old one.
	OptimisticLock bool
}

// MergeFromWithOptimisticLock is the option OptimisticLock.
type MergeFromWithOptimisticLock struct{}

// ApplyToMergeFrom implements MergeFromOption.
func (MergeFromWithOptimisticLock) ApplyToMergeFrom(o *MergeFromOptions) { o.OptimisticLock = true }

// ApplyToMergeFrom makes the options an option.
func (o MergeFromOptions) ApplyToMergeFrom(to *MergeFromOptions) {
	to.OptimisticLock = to.OptimisticLock || o.OptimisticLock
}

type mergeFrom struct {
	patchType types.PatchType
	from      Object
	opts      MergeFromOptions
}

func newMergeFrom(patchType types.PatchType, from Object, opts []MergeFromOption) Patch {
	p := mergeFrom{patchType: patchType, from: from}
	for _, opt := range opts {
		opt.ApplyToMergeFrom(&p.opts)
	}
	return p
}

func (p mergeFrom) Type() types.PatchType { return p.patchType }

func (p mergeFrom) Data(obj Object) ([]byte, error) {
	if isNil(p.from) || isNil(obj) {
		return nil, fmt.Errorf("patch from %T to %T: one is nil", p.from, obj)
	}
	from := p.from
	if p.opts.OptimisticLock {
		version := from.GetResourceVersion()
		if version == "" {
			return nil, fmt.Errorf("patch with an optimistic lock: the old %T %q has no resourceVersion", from, from.GetName())
		}
		// The new resourceVersion is always sent, as though it had just been set.
		from, obj = from.DeepCopyObject().(Object), obj.DeepCopyObject().(Object)
		from.SetResourceVersion("")
		obj.SetResourceVersion(version)
	}
	before, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if p.patchType == types.StrategicMergePatchType {
		return strategicpatch.CreateTwoWayMergePatch(before, after, obj)
	}
	return mergePatch(before, after)
}

// mergePatch is the JSON merge patch (RFC 7386) that makes one JSON object of another.
func mergePatch(before, after []byte) ([]byte, error) {
	var from, to map[string]any
	if err := utiljson.Unmarshal(before, &from); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(after, &to); err != nil {
		return nil, err
	}
	return json.Marshal(difference(from, to))
}

// difference has the members of to that differ from those of from, and null for those that to has
// no more.
func difference(from, to map[string]any) map[string]any {
	changed := map[string]any{}
	for key, v := range to {
		old, ok := from[key]
		oldObject, _ := old.(map[string]any)
		object, _ := v.(map[string]any)
		switch {
		case oldObject != nil && object != nil:
			if inside := difference(oldObject, object); len(inside) > 0 {
				changed[key] = inside
			}
		case !ok || !reflect.DeepEqual(old, v):
			changed[key] = v
		}
	}
	for key := range from {
		if _, ok := to[key]; !ok {
			changed[key] = nil
		}
	}
	return changed
}
