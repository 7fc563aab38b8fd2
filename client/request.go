package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// A request is built step by step. If a step fails, no request is sent, and its error is returned.
type request struct {
	resource *resource
	verb     string
	key      ObjectKey
	rest     *rest.Request
	protobuf bool                    // if the type of an object has it
	answer   schema.GroupVersionKind // the kind that the server answers with
	err      error
}

// all begins a request about all objects of a kind, in a namespace unless that is "".
func (c *client) all(ctx context.Context, verb string, gvk schema.GroupVersionKind, namespace string) *request {
	r := &request{verb: verb, key: ObjectKey{Namespace: namespace}, protobuf: c.protobuf, answer: gvk}
	if r.resource, r.err = c.resources.of(ctx, gvk); r.err != nil {
		return r
	}
	if namespace != "" && !r.resource.namespaced {
		return r.fail(errors.New("the kind is cluster-scoped"))
	}
	r.rest = r.resource.Verb(verb).NamespaceIfScoped(namespace, namespace != "").Resource(r.resource.name)
	return r
}

// one begins a request about one object.
func (c *client) one(ctx context.Context, verb string, gvk schema.GroupVersionKind, key ObjectKey) *request {
	r := c.all(ctx, verb, gvk, key.Namespace).inNamespace()
	r.key.Name = key.Name
	if r.err == nil && key.Name == "" {
		return r.fail(errors.New("the name is missing"))
	}
	if r.err == nil {
		r.rest.Name(key.Name)
	}
	return r
}

// inNamespace fails if the kind has namespaces, and none is given.
func (r *request) inNamespace() *request {
	if r.err == nil && r.resource.namespaced && r.key.Namespace == "" {
		return r.fail(errors.New("the namespace is missing"))
	}
	return r
}

// params adds options to the URL, unless they are all at their defaults.
func (r *request) params(options runtime.Object) *request {
	if r.err != nil || reflect.ValueOf(options).Elem().IsZero() {
		return r
	}
	values, err := queryparams.Convert(options)
	if err != nil {
		return r.fail(err)
	}
	for name, list := range values {
		for _, value := range list {
			r.rest.Param(name, value)
		}
	}
	return r
}

// body sends an object of a kind.
func (r *request) body(obj runtime.Object, gvk schema.GroupVersionKind) *request {
	if r.err != nil {
		return r
	}
	body, contentType, err := encode(obj, gvk, r.protobuf)
	if err != nil {
		return r.fail(err)
	}
	r.rest.SetHeader("Content-Type", contentType).Body(body)
	return r
}

// patch sends a patch of obj, an object of a kind.
func (r *request) patch(patch Patch, obj Object, gvk schema.GroupVersionKind) *request {
	if r.err != nil {
		return r
	}
	if isNil(patch) {
		return r.fail(errors.New("the patch is nil"))
	}
	if patch.Type() == types.ApplyPatchType && obj != nil && obj.GetObjectKind().GroupVersionKind().Empty() {
		// The body of an apply must have a kind.
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		defer obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	body, err := patch.Data(obj)
	if err != nil {
		return r.fail(err)
	}
	r.rest.SetHeader("Content-Type", string(patch.Type())).Body(body)
	return r
}

// deletes sends the options of a deletion, unless they are all at their defaults.
func (r *request) deletes(o *metav1.DeleteOptions) *request {
	if r.err != nil || reflect.ValueOf(o).Elem().IsZero() {
		return r
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(o)
	if err != nil {
		return r.fail(err)
	}
	r.rest.SetHeader("Content-Type", jsonType).Body(body)
	return r
}

// subresource has the request be about a subresource of obj.
func (r *request) subresource(name string, obj runtime.Object) *request {
	if _, ok := asProtobuf(obj); !ok {
		r.protobuf = false // whatever the subresource is, its server is that of obj
	}
	if r.err == nil && name == "" {
		return r.fail(errors.New("the subresource has no name"))
	}
	if r.err == nil {
		r.rest.SubResource(name)
	}
	return r
}

// decodeAs says that the answer is of another kind.
func (r *request) decodeAs(gvk schema.GroupVersionKind) *request {
	r.answer = gvk
	return r
}

// send sends the request, and returns the response.
func (r *request) send(ctx context.Context, accept string) (body []byte, contentType string, err error) {
	if r.err != nil {
		return nil, "", r.err
	}
	result := r.rest.SetHeader("Accept", accept).Do(ctx).ContentType(&contentType)
	if err := result.Error(); err != nil {
		return nil, "", err
	}
	body, err = result.Raw()
	return body, contentType, err
}

// do sends the request, and decodes the response into obj.
func (r *request) do(ctx context.Context, obj runtime.Object) error {
	body, contentType, err := r.send(ctx, accept(obj, r.protobuf))
	if err != nil {
		return err
	}
	return decode(body, contentType, obj, r.answer)
}

// doOrStatus is do, but it ignores a response that is a Status: that of a success carries no
// object.
func (r *request) doOrStatus(ctx context.Context, obj runtime.Object) error {
	body, contentType, err := r.send(ctx, accept(obj, r.protobuf))
	if err != nil || isStatus(body) {
		return err
	}
	return decode(body, contentType, obj, r.answer)
}

// fail notes why the request is not sent.
func (r *request) fail(err error) *request {
	name := r.key.Name
	if r.key.Namespace != "" {
		name = r.key.String()
	}
	r.err = fmt.Errorf("%s %s %q: %w", r.verb, r.answer.Kind, name, err)
	return r
}
