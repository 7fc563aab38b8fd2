package causes

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var pod = schema.GroupKind{Kind: "Pod"}

// TestAsKubernetes compares Statuses with those of Kubernetes, below the bounds.
func TestAsKubernetes(t *testing.T) {
	at := field.NewPath("spec", "list")
	for _, errs := range []field.ErrorList{
		nil,
		{field.Required(at, "")},
		{field.Required(at, "why"), field.Invalid(at.Index(3), map[string]any{"a": 1}, "is wrong")},
		{field.Duplicate(at, "x"), field.Duplicate(at, "x")},
		{field.Duplicate(at, "x"), field.Duplicate(at, "x"), field.TooLong(at.Key("k"), "", 3)},
	} {
		got, want := Invalid(pod, "a", errs), apierrors.NewInvalid(pod, "a", errs)
		if d := cmp.Diff(want.ErrStatus, got.ErrStatus); d != "" {
			t.Error(d)
		}
		var plain []error
		for _, err := range errs {
			plain = append(plain, err)
		}
		if len(plain) > 0 {
			if want := utilerrors.NewAggregate(plain).Error(); Join(plain) != want {
				t.Errorf("%s\nwant %s", Join(plain), want)
			}
		}
	}
}

// TestBounds adds more and more errors: the Status must not grow with them.
func TestBounds(t *testing.T) {
	at := field.NewPath("spec")
	whole, long, path := make([]string, 100_000), strings.Repeat("x", 1<<20), at.Key(strings.Repeat("é", 1<<16))
	for _, c := range []struct {
		name string
		errs field.ErrorList
		want string // part of the message
	}{
		{"many", many(50_000, func(i int) *field.Error { return field.Required(at.Index(i), "") }), "and 49000 more (50000 causes in all)]"},
		{"the same", many(50_000, func(i int) *field.Error { return field.Required(at, "") }), "and 49000 more (50000 causes in all)]"},
		{"long values", many(500, func(i int) *field.Error { return field.Invalid(at, long, "") }), "more (500 causes in all)]"},
		{"each shows the list", many(5_000, func(i int) *field.Error { return field.Invalid(at, whole, fmt.Sprint(i)) }), "more (5000 causes in all)]"},
		{"long paths", many(500, func(i int) *field.Error { return field.Required(path, "") }), "more (500 causes in all)]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Invalid(pod, "a", c.errs)
			data, marshalErr := json.Marshal(err.ErrStatus)
			if marshalErr != nil {
				t.Fatal(marshalErr)
			}
			if most := 6*MostText + 4*mostOne; len(data) > most {
				t.Errorf("%d bytes, at most %d wanted", len(data), most)
			}
			if !strings.HasSuffix(err.Error(), c.want) {
				message := err.Error()
				t.Errorf("the message ends with %q, want %q", message[max(0, len(message)-80):], c.want)
			}
		})
	}
	text := Join(make100k())
	if len(text) > 2*MostText || !strings.HasSuffix(text, "and 99000 more (100000 causes in all)]") {
		t.Errorf("%d bytes, ending with %q", len(text), text[len(text)-80:])
	}
}

func TestOnce(t *testing.T) {
	at := field.NewPath("spec")
	a, b := field.Required(at, "a"), field.Required(at, "b")
	if got := Once(field.ErrorList{a, b, a, b, a}); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("%v", got)
	}
	whole := make([]string, 10_000)
	rendered := 0
	counted := many(10_000, func(int) *field.Error { return field.Invalid(at, counter{&rendered, whole}, "") })
	if got := Once(counted); len(got) < 9_000 || rendered > 100 {
		t.Errorf("%d errors are left, %d were rendered", len(got), rendered)
	}
}

// A counter is a value that counts how often it is rendered.
type counter struct {
	rendered *int
	value    any
}

func (c counter) MarshalJSON() ([]byte, error) {
	*c.rendered++
	return json.Marshal(c.value)
}

func many(n int, one func(int) *field.Error) field.ErrorList {
	var errs field.ErrorList
	for i := range n {
		errs = append(errs, one(i))
	}
	return errs
}

func make100k() (errs []error) {
	for i := range 100_000 {
		errs = append(errs, errors.New(fmt.Sprint("wrong ", i)))
	}
	return errs
}
