package webhook

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Widget has a size: in v1, the hub, a number; in v1alpha1 a string; in v1beta1 a width and a
// height, which must be equal.
type (
	WidgetV1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Spec              WidgetSpec `json:"spec"`
	}
	WidgetSpec struct {
		Size  int      `json:"size"`
		Color string   `json:"color,omitempty"`
		Parts []Part   `json:"parts,omitempty"`
		Tags  []string `json:"tags,omitempty"`
	}
	Part struct {
		Name  string `json:"name"`
		Count int    `json:"count,omitempty"`
	}
	WidgetV1alpha1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Size              string `json:"size"`
	}
	WidgetV1beta1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Width             int `json:"width"`
		Height            int `json:"height"`
	}
)

var (
	widgets              = schema.GroupKind{Group: "things.example.com", Kind: "Widget"}
	v1                   = schema.GroupVersion{Group: widgets.Group, Version: "v1"}
	v1beta1              = schema.GroupVersion{Group: widgets.Group, Version: "v1beta1"}
	v1alpha1             = schema.GroupVersion{Group: widgets.Group, Version: "v1alpha1"}
	_        Hub         = (*WidgetV1)(nil)
	_        Convertible = (*WidgetV1alpha1)(nil)
)

func (w *WidgetV1) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Parts = append([]Part(nil), w.Spec.Parts...)
	out.Spec.Tags = append([]string(nil), w.Spec.Tags...)
	return &out
}

func (w *WidgetV1alpha1) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (w *WidgetV1beta1) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (*WidgetV1) Hub() {}

// The names of widgets whose conversion fails, each in another way.
func (w *WidgetV1alpha1) ConvertTo(hub Hub) (err error) {
	to := hub.(*WidgetV1)
	to.ObjectMeta = w.ObjectMeta
	switch w.Name {
	case "panicking":
		panic("a widget that panics")
	case "renamed":
		to.Name = "other"
	}
	if to.Spec.Size, err = strconv.Atoi(cmp.Or(w.Size, "0")); err != nil {
		return errors.New("size " + w.Size + " is no number")
	}
	return nil
}

func (w *WidgetV1alpha1) ConvertFrom(hub Hub) error {
	from := hub.(*WidgetV1)
	w.ObjectMeta = from.ObjectMeta
	w.Size = strconv.Itoa(from.Spec.Size)
	return nil
}

func (w *WidgetV1beta1) ConvertTo(hub Hub) error {
	to := hub.(*WidgetV1)
	to.ObjectMeta = w.ObjectMeta
	to.Spec.Size = w.Width
	if w.Width != w.Height {
		return errors.New("width and height must be equal")
	}
	return nil
}

func (w *WidgetV1beta1) ConvertFrom(hub Hub) error {
	from := hub.(*WidgetV1)
	w.ObjectMeta = from.ObjectMeta
	w.Width, w.Height = from.Spec.Size, from.Spec.Size
	return nil
}

// widgetScheme has all versions.
func widgetScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1.WithKind("Widget"), &WidgetV1{})
	scheme.AddKnownTypeWithName(v1beta1.WithKind("Widget"), &WidgetV1beta1{})
	scheme.AddKnownTypeWithName(v1alpha1.WithKind("Widget"), &WidgetV1alpha1{})
	return scheme
}

// widget returns a Widget of v1 in JSON, with more fields after the required ones.
func widget(name, spec string) string {
	return `{"apiVersion":"things.example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
}

func contains(t *testing.T, what, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in it", what, got, want)
		}
	}
}
