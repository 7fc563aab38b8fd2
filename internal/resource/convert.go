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

// Objects are stored in one version and served in several. Definition.Convert is cheap and never
// fails: it runs when an object is decoded, and its result is cached with the object. A webhook is
// called before that, where there is a context and an error can be returned: a Store returns
// objects that are in the version of the request already, many of them after one call. Results of
// webhooks are not cached, except for those that watches share.

// decodeIn decodes an object in version v. Where a webhook converts, it must have converted o
// before.
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

// decodeStored decodes an object in the version in which it is stored, and normalises it if it was
// stored under another schema than the current one.
func decodeStored(d *Definition, o *object.Object) (obj Tree, in *Version, err error) {
	if obj, err = o.Tree(); err != nil {
		return nil, nil, err
	}
	in = d.Storage
	gv, err := schema.ParseGroupVersion(unstructuredString(obj, "apiVersion"))
	if err == nil && gv != d.GroupVersion(in) {
		// The storage version has changed since the object was written.
		switch was := d.AnyVersion(gv); {
		case was != nil:
			in = was
		case d.Custom && gv.Version != "":
			// The version is unknown: to decode the object as another one would lose fields.
			return nil, nil, &refused{o, o.Key.Under(d.StoredAt), fmt.Errorf("request to convert CR from an invalid group/version: %s", gv)}
		}
	}
	if o.Schema != stamp(in) {
		if obj, err = in.Model.Normalise(obj, nil); err != nil {
			return nil, nil, fmt.Errorf("normalise %s: %w", o.Key, err)
		}
	}
	return obj, in, nil
}

// AnyVersion returns the version of that name, served or not, or nil.
func (d *Definition) AnyVersion(gv schema.GroupVersion) *Version {
	if d.Storage != nil && d.GroupVersion(d.Storage) == gv { // kinds that store nothing have none
		return d.Storage
	}
	for _, v := range d.Unserved {
		if d.GroupVersion(v) == gv {
			return v
		}
	}
	return d.Version(gv)
}

// inVersion returns objects that can be decoded in version v. Where a webhook converts, those
// stored in another version are replaced by converted ones, all of which come from one call. The
// slice objects is not changed.
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
		first := objects[at[0]]
		return nil, &refused{of: first, path: first.Key.Under(d.StoredAt), err: err}
	}
	objects = slices.Clone(objects)
	for i, obj := range trees {
		if objects[at[i]], err = converted(v, obj, objects[at[i]]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// converted returns the object that a webhook has converted from another to obj.
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

// seen returns a stored object in the version of the request.
func (r *Request) seen(ctx context.Context, o *object.Object) (*object.Object, error) {
	o, err := r.answer(ctx, o)
	if no := (*refused)(nil); errors.As(err, &no) {
		err = apierrors.NewInternalError(errors.New(no.corrupt("")))
	}
	return o, err
}

// answer returns an object that is about to be stored in the version of the request.
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

// encode returns the object to store for a tree in the version of the request. The tree is used up.
// raw says that it may not be normalised.
func (r *Request) encode(ctx context.Context, obj Tree, raw bool) (*object.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := r.Definition
	obj["apiVersion"], obj["kind"] = d.APIVersion(r.Version), d.Kind
	delete(metadata(obj), "resourceVersion") // it is not stored, and webhooks must not see it
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
	if raw && r.Version == d.Storage {
		var err error
		if obj, normalised, err = encodeRaw(d.Storage, obj); err != nil {
			return nil, err
		}
	}
	if m, ok := d.Storage.Model.(completer); ok && m.Completes(obj) {
		normalised = 0 // what a hook has dropped comes back with its default whenever the object is read
	}
	o, err := object.New(key, obj, normalised, now())
	if err != nil {
		// A value that JSON cannot express can only come from the client.
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// A completer is a Model that fills in defaults of the fields at the root.
type completer interface {
	// Completes reports whether Normalise would add a field at the root of obj.
	Completes(obj Tree) bool
}

// Translate converts an object from one version of the resource to another, for webhooks and
// policies that match requests in a version of their own. It does not change obj, and returns obj
// itself if the versions are the same. A custom resource keeps fields that its new version does not
// know.
func (d *Definition) Translate(ctx context.Context, obj Tree, from, to *Version) (Tree, error) {
	if from == to || obj == nil {
		return obj, nil
	}
	copied := runtime.DeepCopyJSON(obj)
	copied["apiVersion"], copied["kind"] = d.APIVersion(from), d.Kind
	translated, err := convert(ctx, d, copied, from, to)
	if err != nil || d.Custom {
		return translated, err
	}
	return to.Model.Prune(translated)
}

// convert converts a tree from one version to another, and uses it up. The caller prunes or
// normalises the result.
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
