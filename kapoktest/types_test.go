package kapoktest_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Policy is a custom kind of these tests.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PolicySpec   `json:"spec"`
	Status            PolicyStatus `json:"status,omitzero"`
}

// PolicySpec has a field of each type.
type PolicySpec struct {
	Shared  `json:",inline"`
	Name    string                       `json:"name"`
	Count   int32                        `json:"count,omitempty"`
	Ratio   float64                      `json:"ratio,omitempty"`
	On      *bool                        `json:"on,omitempty"`
	Port    intstr.IntOrString           `json:"port,omitzero"`
	Memory  resource.Quantity            `json:"memory,omitzero"`
	Labels  map[string]string            `json:"labels,omitempty"`
	Steps   []Step                       `json:"steps,omitempty"`
	Every   *metav1.Duration             `json:"every,omitempty"`
	Since   *metav1.Time                 `json:"since,omitempty"`
	Raw     *runtime.RawExtension        `json:"raw,omitempty"`
	Secret  []byte                       `json:"secret,omitempty"`
	Any     map[string]map[string][]Step `json:"any,omitempty"`
	private int
}

// Shared is embedded.
type Shared struct {
	Owner string `json:"owner,omitempty"`
}

// A Step contains steps.
type Step struct {
	Do   string `json:"do"`
	Then []Step `json:"then,omitempty"`
}

// PolicyStatus is written by another component.
type PolicyStatus struct {
	Ready      bool               `json:"ready"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (p *Policy) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

func TestTypes(t *testing.T) {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1alpha1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(gv, &Policy{})
	metav1.AddToGroupVersion(scheme, gv)

	env := kapoktest.Start(t, kapoktest.Scheme(scheme), kapoktest.Types(&Policy{}))
	p := &Policy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: PolicySpec{
		Shared: Shared{Owner: "me"}, Name: "n", Count: 3, Ratio: 0.5, On: new(true), Port: intstr.FromString("http"), Memory: resource.MustParse("1Gi"),
		Labels: map[string]string{"a": "b"}, Steps: []Step{{Do: "x", Then: []Step{{Do: "y", Then: []Step{{Do: "z"}}}}}},
		Every: &metav1.Duration{Duration: time.Hour}, Since: &metav1.Time{Time: time.Unix(1e9, 0)}, Raw: &runtime.RawExtension{Raw: []byte(`{"k":1}`)},
		Secret: []byte("s"), Any: map[string]map[string][]Step{"a": {"b": {{Do: "c"}}}}, private: 1,
	}}
	env.Create(p)
	back := &Policy{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
	env.Get(back)
	if back.Spec.Owner != "me" || back.Spec.Steps[0].Then[0].Then[0].Do != "z" || string(back.Spec.Raw.Raw) != `{"k":1}` || back.Spec.Memory.Value() != 1<<30 ||
		back.Spec.Port.StrVal != "http" || back.Spec.Any["a"]["b"][0].Do != "c" || back.Status.Ready {
		t.Errorf("got %+v", back.Spec)
	}
	env.UpdateStatus(back, func() { back.Status.Ready = true })
	env.WaitFor(t.Context(), p, func() bool { return p.Status.Ready })

	without := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gv.String(), "kind": "Policy", "metadata": map[string]any{"name": "b", "namespace": "default"}, "spec": map[string]any{}}}
	if err := env.Client().Create(t.Context(), without); !apierrors.IsInvalid(err) {
		t.Errorf("without a required field: %v", err)
	}
	var _ client.Object = p
}
