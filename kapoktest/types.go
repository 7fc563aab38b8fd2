package kapoktest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types generates and installs CustomResourceDefinitions from Go types that the Scheme knows, for
// kinds without manifests. The schema follows from the type and its JSON tags: fields without
// omitempty or omitzero are required, a field Status is a subresource, and the plural is the one
// that Kubernetes guesses. Markers of kubebuilder in comments have no effect: for these, install
// generated manifests with CRDs.
func Types(objs ...client.Object) Option { return define(apiextensionsv1.NamespaceScoped, objs) }

// ClusterTypes is like Types, for cluster-scoped kinds.
func ClusterTypes(objs ...client.Object) Option { return define(apiextensionsv1.ClusterScoped, objs) }

func define(scope apiextensionsv1.ResourceScope, objs []client.Object) Option {
	return func(o *options) {
		o.crds = append(o.crds, func() (all []*unstructured.Unstructured, err error) {
			for _, obj := range objs {
				crd, err := definitionOf(obj, o.scheme, scope)
				if err != nil {
					return nil, fmt.Errorf("definition of %T: %w", obj, err)
				}
				all = append(all, crd)
			}
			return all, nil
		})
	}
}

func definitionOf(obj client.Object, scheme *runtime.Scheme, scope apiextensionsv1.ResourceScope) (*unstructured.Unstructured, error) {
	gvk, err := client.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	root := schemaOf(reflect.TypeOf(obj).Elem(), nil)
	for _, name := range []string{"apiVersion", "kind", "metadata"} { // the server knows better
		delete(root.Properties, name)
	}
	root.Required = slices.DeleteFunc(root.Required, func(name string) bool { return name == "metadata" || name == "status" })
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: gvk.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
	}
	if _, ok := root.Properties["status"]; ok {
		version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	plural, singular := pluralOf(gvk.Kind), strings.ToLower(gvk.Kind)
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: definitionKind},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group, Scope: scope, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: gvk.Kind, ListKind: gvk.Kind + "List", Plural: plural, Singular: singular},
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// pluralOf returns the plural that Kubernetes guesses (meta.UnsafeGuessKindToResource).
func pluralOf(kind string) string {
	lower := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(lower, "s"):
		return lower + "es"
	case strings.HasSuffix(lower, "y"):
		return strings.TrimSuffix(lower, "y") + "ies"
	}
	return lower + "s"
}

var (
	quantity   = reflect.TypeFor[resource.Quantity]()
	intOrText  = reflect.TypeFor[intstr.IntOrString]()
	raw        = reflect.TypeFor[runtime.RawExtension]()
	objectMeta = reflect.TypeFor[metav1.ObjectMeta]()
	duration   = reflect.TypeFor[metav1.Duration]()
	times      = []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]()}
	marshalers = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()}
)

// schemaOf returns the schema of a type. Recursive types, and types with their own encoding, allow
// any value.
func schemaOf(t reflect.Type, inside []reflect.Type) apiextensionsv1.JSONSchemaProps {
	anything := apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}
	switch {
	case t.Kind() == reflect.Pointer:
		s := schemaOf(t.Elem(), inside)
		return s
	case slices.Contains(times, t):
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time", Nullable: true}
	case t == duration:
		return apiextensionsv1.JSONSchemaProps{Type: "string"}
	case t == quantity, t == intOrText:
		return apiextensionsv1.JSONSchemaProps{XIntOrString: true}
	case t == raw:
		return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	case t == objectMeta:
		return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	case slices.Contains(inside, t), slices.ContainsFunc(marshalers, func(m reflect.Type) bool { return t.Implements(m) || reflect.PointerTo(t).Implements(m) }):
		return anything
	}
	switch t.Kind() {
	case reflect.String:
		return apiextensionsv1.JSONSchemaProps{Type: "string"}
	case reflect.Bool:
		return apiextensionsv1.JSONSchemaProps{Type: "boolean"}
	case reflect.Int32:
		return apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}
	case reflect.Int64:
		return apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int64"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return apiextensionsv1.JSONSchemaProps{Type: "integer"}
	case reflect.Float32, reflect.Float64:
		return apiextensionsv1.JSONSchemaProps{Type: "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "byte", Nullable: true}
		}
		items := schemaOf(t.Elem(), append(inside, t))
		return apiextensionsv1.JSONSchemaProps{Type: "array", Nullable: true, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	case reflect.Map:
		values := schemaOf(t.Elem(), append(inside, t))
		return apiextensionsv1.JSONSchemaProps{Type: "object", Nullable: true, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &values}}
	case reflect.Struct:
		s := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		addFields(&s, t, append(inside, t))
		return s
	}
	return anything
}

// addFields adds the fields of a struct and of its embedded structs.
func addFields(s *apiextensionsv1.JSONSchemaProps, t reflect.Type, inside []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		options := strings.Split(rest, ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			addFields(s, embedded, append(inside, embedded))
			continue
		case name == "":
			name = f.Name
		}
		s.Properties[name] = schemaOf(f.Type, inside)
		if f.Type.Kind() != reflect.Pointer && !slices.Contains(options, "omitempty") && !slices.Contains(options, "omitzero") {
			s.Required = append(s.Required, name)
		}
	}
}
