package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"strings"

	codec "github.com/kapok-dev/kapok/client/typed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unstructuredv1 "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// protobufPrefix is the prefix of Kubernetes' protobuf encoding; a runtime.Unknown follows.
var protobufPrefix = []byte("k8s\x00")

// A protobufObject is a Go type that has been generated with protobuf.
type protobufObject interface {
	runtime.ProtobufMarshaller
	Reset()
	Unmarshal([]byte) error
}

// asProtobuf returns obj if its server also supports protobuf for it. These are the types of
// Kubernetes itself: a custom kind is JSON, even if its type has the methods, through an embedded
// field or because it was once a part of another server.
func asProtobuf(obj runtime.Object) (protobufObject, bool) {
	p, ok := obj.(protobufObject)
	return p, ok && strings.HasPrefix(reflect.TypeOf(obj).Elem().PkgPath(), "k8s.io/")
}

// accept returns the media types to request for obj.
func accept(obj runtime.Object, protobuf bool) string {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		return acceptMetadata
	case *metav1.PartialObjectMetadataList:
		return acceptMetadataList
	}
	if _, ok := asProtobuf(obj); ok && protobuf {
		return acceptProtobuf
	}
	return jsonType
}

// encode returns obj as bytes that include its kind, and their media type: protobuf if the server
// accepts it and the type supports it.
func encode(obj runtime.Object, gvk schema.GroupVersionKind, takesProtobuf bool) (body []byte, contentType string, err error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		body, err = json.Marshal(u.UnstructuredContent())
		return body, jsonType, err
	}
	kind := obj.GetObjectKind()
	if said := kind.GroupVersionKind(); said != gvk {
		kind.SetGroupVersionKind(gvk)
		defer kind.SetGroupVersionKind(said)
	}
	if _, ok := asProtobuf(obj); ok && takesProtobuf {
		var b bytes.Buffer
		err = protobuf.NewSerializer(nil, nil).Encode(obj, &b)
		return b.Bytes(), protobufType, err
	}
	body, err = json.Marshal(obj)
	return body, jsonType, err
}

// decode replaces obj, of kind gvk, by the object in body. The TypeMeta of obj is kept:
// unstructured objects and metadata have one, typed objects usually do not.
func decode(body []byte, contentType string, obj runtime.Object, gvk schema.GroupVersionKind) error {
	if len(body) == 0 {
		return fmt.Errorf("decode %s: the response is empty", gvk.Kind)
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType = contentType
	}
	said := obj.GetObjectKind().GroupVersionKind()
	var got schema.GroupVersionKind
	switch {
	case mediaType == protobufType:
		got, err = decodeProtobuf(body, obj)
	case mediaType != jsonType:
		err = fmt.Errorf("unsupported media type %q in the response", contentType)
	default:
		got, err = decodeJSON(body, obj)
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", gvk.Kind, err)
	}
	partial := formOf(obj) == metadata && got.Group == metav1.GroupName && strings.HasPrefix(got.Kind, "PartialObjectMetadata")
	if isList(obj) && got.GroupVersion() == gvk.GroupVersion() && got.Kind != "Status" {
		got = gvk // a definition may have its lists be of any kind
		if formOf(obj) == unstructured {
			obj.GetObjectKind().SetGroupVersionKind(gvk)
		}
	}
	if got != gvk && got.Kind != "" && !partial {
		return fmt.Errorf("decode %s: the response has kind %q of %q", gvk.Kind, got.Kind, got.GroupVersion())
	}
	if formOf(obj) != unstructured {
		obj.GetObjectKind().SetGroupVersionKind(said)
	}
	if list, ok := obj.(*metav1.PartialObjectMetadataList); ok {
		item := itemKind(gvk, obj)
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(item)
		}
	}
	return nil
}

// isStatus reports whether the server answers with a Status instead of an object.
func isStatus(body []byte) bool {
	var kind runtime.TypeMeta
	if message, ok := bytes.CutPrefix(body, protobufPrefix); ok {
		var envelope runtime.Unknown
		if envelope.Unmarshal(message) != nil {
			return false
		}
		kind = envelope.TypeMeta
	} else if json.Unmarshal(body, &kind) != nil {
		return false
	}
	return kind.Kind == "Status" && kind.APIVersion == "v1"
}

func decodeProtobuf(body []byte, obj runtime.Object) (schema.GroupVersionKind, error) {
	into, ok := obj.(protobufObject)
	if !ok {
		return schema.GroupVersionKind{}, fmt.Errorf("%T does not support protobuf", obj)
	}
	message, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		return schema.GroupVersionKind{}, fmt.Errorf("protobuf without the prefix %q", protobufPrefix)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(message); err != nil {
		return schema.GroupVersionKind{}, err
	}
	zero(obj)
	return envelope.GroupVersionKind(), into.Unmarshal(envelope.Raw)
}

func decodeJSON(body []byte, obj runtime.Object) (schema.GroupVersionKind, error) {
	u, ok := obj.(runtime.Unstructured)
	if !ok {
		zero(obj)
		err := codec.FromJSON(body, obj)
		return obj.GetObjectKind().GroupVersionKind(), err
	}
	content, err := codec.Tree(body)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if list, ok := obj.(*unstructuredv1.UnstructuredList); ok {
		return setUnstructuredList(list, content)
	}
	u.SetUnstructuredContent(content)
	return u.GetObjectKind().GroupVersionKind(), nil
}

// setUnstructuredList sets a list to content. Items of built-in kinds get their kind here.
func setUnstructuredList(list *unstructuredv1.UnstructuredList, content map[string]any) (schema.GroupVersionKind, error) {
	items, ok := content["items"].([]any)
	if !ok && content["items"] != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("items must be an array, not a %T", content["items"])
	}
	delete(content, "items")
	list.Object = content
	list.Items = make([]unstructuredv1.Unstructured, len(items))
	gvk := list.GroupVersionKind()
	for i := range items {
		fields, ok := items[i].(map[string]any)
		if !ok {
			return schema.GroupVersionKind{}, fmt.Errorf("item %d must be an object, not a %T", i, items[i])
		}
		item := &list.Items[i]
		item.Object = fields
		if item.GetKind() == "" && item.GetAPIVersion() == "" {
			item.SetGroupVersionKind(gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "List")))
		}
	}
	return gvk, nil
}

// zero clears an object, because decoding does not clear fields that are absent.
func zero(obj runtime.Object) { reflect.ValueOf(obj).Elem().SetZero() }
