package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects are stored in one version and served in several. What Convert does is
// cheap, and never fails: it is done when an object is decoded, and what comes of
// it is kept with the object. A webhook is asked before that, where there is a
// context and an error can still be told: a Store returns objects that are in the
// version of the request already, many of them after one call. Nothing of this is
// kept, but for what watches share.

// decodeIn decodes an object in a version; a webhook must have converted it.
func decodeIn(d *Definition, v *Version, o *object.Object) (Tree, error) {
	obj, from, err := decodeStored(d, o)
	if err != nil || from == v {
		return obj, err
	}
	if d.Webhook != nil {
		return nil, fmt.Errorf("%s is in version %s, and not in %s", o.Key, from.Name, v.Name)
	}
	if d.Convert != nil {
		if err := d.Convert(obj, from, v); err != nil {
			return nil, err
		}
	}
	obj["apiVersion"] = d.APIVersion(v)
	// Defaults are those of the version that is stored, as in Kubernetes.
	return v.Model.Prune(obj)
}

// decodeStored decodes an object, and brings it up to the schema of now where it
// was stored under another.
func decodeStored(d *Definition, o *object.Object) (obj Tree, in *Version, err error) {
	if obj, err = o.Tree(); err != nil {
		return nil, nil, err
	}
	in = d.Storage
	gv, err := schema.ParseGroupVersion(unstructuredString(obj, "apiVersion"))
	if err == nil && gv != d.GroupVersion(in) {
		// Stored when another version was the one to store.
		switch was := d.anyVersion(gv); {
		case was != nil:
			in = was
		case d.Custom && gv.Version != "":
			// Nobody knows what is in it: to take it for something else would lose that.
			return nil, nil, &refused{o, fmt.Errorf("request to convert CR from an invalid group/version: %s", gv)}
		}
	}
	if o.Schema != stamp(in) {
		if obj, err = in.Model.Normalise(obj, nil); err != nil {
			return nil, nil, fmt.Errorf("normalise %s: %w", o.Key, err)
		}
	}
	return obj, in, nil
}

// anyVersion returns a version, served or not.
func (d *Definition) anyVersion(gv schema.GroupVersion) *Version {
	if d.GroupVersion(d.Storage) == gv {
		return d.Storage
	}
	for _, v := range d.Unserved {
		if d.GroupVersion(v) == gv {
			return v
		}
	}
	return d.Version(gv)
}

// inVersion returns objects such that they can be decoded in a version: where a
// webhook converts, those that are stored in another one are objects of their own,
// the fruit of one call. It leaves the slice as it is.
func inVersion(ctx context.Context, d *Definition, v *Version, objects []*object.Object) ([]*object.Object, error) {
	if d.Webhook == nil {
		return objects, nil
	}
	var trees []Tree
	var at []int // of the trees among the objects
	for i, o := range objects {
		if o.Schema == stamp(v) {
			continue
		}
		obj, from, err := decodeStored(d, o)
		if err != nil {
			return nil, err
		}
		if from != v {
			trees, at = append(trees, obj), append(at, i)
		}
	}
	if len(trees) == 0 {
		return objects, nil
	}
	trees, err := d.Webhook(ctx, trees, v)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, &refused{of: objects[at[0]], err: err}
	}
	objects = slices.Clone(objects)
	for i, obj := range trees {
		if objects[at[i]], err = converted(v, obj, objects[at[i]]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// converted makes an object of what a webhook has made of one.
func converted(v *Version, obj Tree, from *object.Object) (*object.Object, error) {
	obj, err := v.Model.Prune(obj)
	if err != nil {
		return nil, err
	}
	o, err := object.New(from.Key, obj, stamp(v), from.Written)
	if err != nil {
		return nil, err
	}
	o.Revision = from.Revision
	return o, nil
}

// seen returns an object that is stored as the client of a request sees it.
func (r *Request) seen(ctx context.Context, o *object.Object) (*object.Object, error) {
	o, err := r.answer(ctx, o)
	if no := (*refused)(nil); errors.As(err, &no) {
		err = apierrors.NewInternalError(errors.New(no.corrupt("")))
	}
	return o, err
}

// answer returns an object that is about to be stored as the client will see it.
func (r *Request) answer(ctx context.Context, o *object.Object) (*object.Object, error) {
	if r.Definition.Webhook == nil {
		return o, nil
	}
	objects, err := inVersion(ctx, r.Definition, r.Version, []*object.Object{o})
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// encode makes the object to be stored of a tree in the version of the request.
// The tree is used up.
func (r *Request) encode(ctx context.Context, obj Tree) (*object.Object, error) {
	d := r.Definition
	obj["apiVersion"], obj["kind"] = d.APIVersion(r.Version), d.Kind
	delete(metadata(obj), "resourceVersion") // which is not stored, and nobody outside shall see
	if r.Version != d.Storage {
		var err error
		if obj, err = convert(ctx, d, obj, r.Version, d.Storage); err != nil {
			return nil, err
		}
		if obj, err = d.Storage.Model.Normalise(obj, nil); err != nil {
			return nil, err
		}
	}
	key := d.Key(r.Namespace, metaString(obj, "name"))
	normalised := stamp(d.Storage)
	if m, ok := d.Storage.Model.(completer); ok && m.Completes(obj) {
		normalised = 0 // what a hook has dropped comes back with its default whenever the object is read
	}
	o, err := object.New(key, obj, normalised, now())
	if err != nil {
		// All that a tree can have that JSON cannot comes from the client.
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// A completer is a Model that fills in defaults of the fields at the root.
type completer interface {
	// Completes says whether Normalise would add a field at the root of obj.
	Completes(obj Tree) bool
}

// Translate returns an object in another version of the resource, as those see it who are asked about requests in a
// version of their own. It leaves obj as it is; where the versions are the same, obj is the result.
func (d *Definition) Translate(ctx context.Context, obj Tree, from, to *Version) (Tree, error) {
	if from == to || obj == nil {
		return obj, nil
	}
	copied := runtime.DeepCopyJSON(obj)
	copied["apiVersion"], copied["kind"] = d.APIVersion(from), d.Kind
	translated, err := convert(ctx, d, copied, from, to)
	if err != nil {
		return nil, err
	}
	return to.Model.Prune(translated)
}

// convert brings a tree from one version to another, and uses it up. The caller
// prunes or normalises the result.
func convert(ctx context.Context, d *Definition, obj Tree, from, to *Version) (Tree, error) {
	switch {
	case from == to:
		return obj, nil
	case d.Webhook != nil:
		trees, err := d.Webhook(ctx, []Tree{obj}, to)
		if err != nil {
			return nil, err
		}
		return trees[0], nil
	case d.Convert != nil:
		if err := d.Convert(obj, from, to); err != nil {
			return nil, err
		}
	}
	obj["apiVersion"] = d.APIVersion(to)
	return obj, nil
}
