package convert_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/convert"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An At runs a command at a time. In v1alpha1 the command is one string, in v1 its words.
type (
	AtV1alpha1 struct {
		metav1.TypeMeta
		metav1.ObjectMeta
		Schedule string
		Command  string
	}
	AtV1 struct {
		metav1.TypeMeta
		metav1.ObjectMeta
		Schedule string
		Command  []string
	}
)

func (in *AtV1alpha1) DeepCopyObject() runtime.Object { out := *in; return &out }
func (in *AtV1) DeepCopyObject() runtime.Object       { out := *in; return &out }

var (
	v1alpha1 = schema.GroupVersion{Group: "cnat.example.com", Version: "v1alpha1"}
	v1       = schema.GroupVersion{Group: "cnat.example.com", Version: "v1"}
)

// Here the newest version is the hub. Only the field of the command needs a rule, because fields
// with the same name in both versions are converted without one.
func Example() {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1.WithKind("At"), &AtV1{})
	scheme.AddKnownTypeWithName(v1alpha1.WithKind("At"), &AtV1alpha1{})
	if err := scheme.SetVersionPriority(v1, v1alpha1); err != nil {
		fmt.Println(err)
	}

	ats, err := convert.New(scheme, convert.Spoke(
		func(in *AtV1alpha1, hub *AtV1) error {
			hub.Command = strings.Fields(in.Command)
			return nil
		},
		func(hub *AtV1, out *AtV1alpha1) error {
			out.Command = strings.Join(hub.Command, " ")
			return nil
		},
	))
	if err != nil {
		fmt.Println(err)
		return
	}

	old := &AtV1alpha1{ObjectMeta: metav1.ObjectMeta{Name: "example-at"}, Schedule: "2019-07-03T02:00:00Z", Command: "echo YAY"}
	converted, err := ats.To(old, v1)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := converted.(*AtV1)
	fmt.Printf("%s %s %s %q\n", at.APIVersion, at.Name, at.Schedule, at.Command)

	// Without a target the object is converted to the preferred version. An unknown version is an
	// error.
	preferred, _ := ats.To(old, schema.GroupVersion{})
	fmt.Println(preferred.GetObjectKind().GroupVersionKind())
	_, err = ats.To(old, schema.GroupVersion{Group: "cnat.example.com", Version: "v2"})
	fmt.Println(err, errors.Is(err, convert.ErrUnknown))
	// Output:
	// cnat.example.com/v1 example-at 2019-07-03T02:00:00Z ["echo" "YAY"]
	// cnat.example.com/v1, Kind=At
	// not known to the converter: At has no version cnat.example.com/v2, but cnat.example.com/v1, cnat.example.com/v1alpha1 true
}

// A field that would be lost is an error before anything is converted.
func ExampleNew() {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1.WithKind("At"), &AtV1{})
	scheme.AddKnownTypeWithName(v1alpha1.WithKind("At"), &AtV1alpha1{})

	_, err := convert.New(scheme, convert.Spoke[AtV1, AtV1alpha1](nil, nil))
	fmt.Println(err)
	// Output:
	// convert_test.AtV1alpha1.Command: no conversion of string to []string
	// convert_test.AtV1.Command: no conversion of []string to string
}
