package client_test

import (
	"encoding/json"
	"testing"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A gadget is a custom kind.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              gadgetSpec   `json:"spec,omitempty"`
	Status            gadgetStatus `json:"status,omitempty"`
}

type gadgetSpec struct {
	Size  int64           `json:"size"`
	Since metav1.Time     `json:"since,omitempty"`
	Port  intOrStringLike `json:"port,omitempty"`
	Tags  []gadgetTag     `json:"tags,omitempty"`
	Empty *gadgetTag      `json:"empty,omitempty"`
}

type intOrStringLike struct {
	Name string `json:"name,omitempty"`
}

type gadgetTag struct {
	Key  string          `json:"key,omitempty"`
	When metav1.Time     `json:"when,omitempty"`
	Port intOrStringLike `json:"port,omitempty"`
}

type gadgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

type gadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []gadget `json:"items"`
}

func (g *gadget) DeepCopyObject() runtime.Object { return deepCopyJSON(g, new(gadget)) }

func (l *gadgetList) DeepCopyObject() runtime.Object { return deepCopyJSON(l, new(gadgetList)) }

func deepCopyJSON[T runtime.Object](from, to T) T {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
	return to
}

var gadgetVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

func gadgetScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := appsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := autoscalingv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	s.AddKnownTypeWithName(gadgetVersion.WithKind("Gadget"), &gadget{})
	s.AddKnownTypeWithName(gadgetVersion.WithKind("GadgetList"), &gadgetList{})
	return s
}

// gadgetDefinition defines the kind.
func gadgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	preserve := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gadgetVersion.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &preserve},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// defineGadgets defines the kind, and waits until the server has it.
func defineGadgets(t testing.TB, c client.Client) {
	t.Helper()
	defineAs(t, c, gadgetDefinition())
}

func defineAs(t testing.TB, c client.Client, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if err := c.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	definitions := client.For[*apiextensionsv1.CustomResourceDefinition](c)
	for event, err := range definitions.Watch(t.Context(), client.MatchingFields{"metadata.name": "gadgets.example.com"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range event.Object.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return
			}
		}
	}
}

// A definition may have its lists be of any kind.
func TestListKind(t *testing.T) {
	ctx := t.Context()
	c, err := client.NewWithWatch(startServer(t), client.Options{Scheme: gadgetScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	definition := gadgetDefinition()
	definition.Spec.Names.ListKind = "GadgetCollection"
	defineAs(t, c, definition)
	if err := c.Create(ctx, &gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}); err != nil {
		t.Fatal(err)
	}
	u, m := &unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{}
	u.SetGroupVersionKind(gadgetVersion.WithKind("GadgetList"))
	m.SetGroupVersionKind(gadgetVersion.WithKind("GadgetList"))
	for _, list := range []client.ObjectList{&gadgetList{}, u, u, m} {
		if err := c.List(ctx, list); err != nil || meta.LenList(list) != 1 {
			t.Errorf("%T: %d, %v", list, meta.LenList(list), err)
		}
	}
	if all, err := client.Dynamic(c, gadgetVersion.WithResource("gadgets")).List(ctx); err != nil || len(all) != 1 {
		t.Errorf("dynamic: %v, %v", all, err)
	}
}

// A kind whose name ends in List, and which has items, is no list.
func TestKindThatIsNoList(t *testing.T) {
	kind := gadgetVersion.WithKind("ShoppingList")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	u := &unstructured.Unstructured{Object: map[string]any{"items": []any{map[string]any{"name": "milk"}}}}
	u.SetGroupVersionKind(kind)
	if namespaced, err := client.IsObjectNamespaced(u, runtime.NewScheme(), mapper); err != nil || !namespaced {
		t.Errorf("%v, %v", namespaced, err)
	}
}
