package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// colors sets the defaults that the name of a widget selects.
type colors struct{}

func (colors) Default(ctx context.Context, w *WidgetV1) error {
	req, err := RequestFromContext(ctx)
	if err != nil {
		return err
	}
	switch w.Name {
	case "unchanged":
	case "refused":
		return errors.New("no more colors")
	case "invalid":
		return fmt.Errorf("wrapped: %w", apierrors.NewInvalid(widgets, w.Name, field.ErrorList{field.Required(field.NewPath("spec", "color"), "say one")}))
	case "cleared":
		w.Spec.Color = ""
		w.Spec.Parts = nil
	case "first":
		w.Spec.Parts = append([]Part{{Name: "new"}}, w.Spec.Parts...)
	case "last":
		w.Spec.Parts = append(w.Spec.Parts, Part{Name: "new"})
	case "shorter":
		w.Spec.Parts = w.Spec.Parts[1:]
	case "labelled":
		w.Labels = map[string]string{"a/b~c": "d"}
	default:
		w.Spec.Color = "blue by " + string(req.Operation)
	}
	return nil
}

type sizes struct{}

func (sizes) ValidateCreate(ctx context.Context, w *WidgetV1) (Warnings, error) {
	if _, err := RequestFromContext(ctx); err != nil {
		return nil, err
	}
	if w.Spec.Size > 100 {
		err := apierrors.NewInvalid(widgets, w.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "size"), w.Spec.Size, "must be at most 100")})
		return Warnings{"big"}, fmt.Errorf("wrapped: %w", err)
	}
	if w.Spec.Size < 0 {
		return nil, errors.New("smaller than nothing")
	}
	return Warnings{"created"}, nil
}

func (sizes) ValidateUpdate(_ context.Context, old, w *WidgetV1) (Warnings, error) {
	if w.Spec.Size < old.Spec.Size {
		return Warnings{"shrinking"}, fmt.Errorf("%d is less than %d", w.Spec.Size, old.Spec.Size)
	}
	return nil, nil
}

func (sizes) ValidateDelete(_ context.Context, w *WidgetV1) (Warnings, error) {
	if w.Name == "kept" {
		return nil, apierrors.NewTooManyRequests("come again", 3)
	}
	return Warnings{"gone"}, nil
}

// anyDefaulter and anyValidator implement the interfaces for any type.
type (
	anyDefaulter struct{}
	anyValidator struct{}
)

func (anyDefaulter) Default(ctx context.Context, obj runtime.Object) error {
	return colors{}.Default(ctx, obj.(*WidgetV1))
}

func (anyValidator) ValidateCreate(ctx context.Context, obj runtime.Object) (Warnings, error) {
	return sizes{}.ValidateCreate(ctx, obj.(*WidgetV1))
}

func (anyValidator) ValidateUpdate(ctx context.Context, old, obj runtime.Object) (Warnings, error) {
	return sizes{}.ValidateUpdate(ctx, old.(*WidgetV1), obj.(*WidgetV1))
}

func (anyValidator) ValidateDelete(ctx context.Context, obj runtime.Object) (Warnings, error) {
	return sizes{}.ValidateDelete(ctx, obj.(*WidgetV1))
}

func requestOf(operation admissionv1.Operation, obj, old string) Request {
	req := Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "u", Operation: operation}}
	req.Object.Raw, req.OldObject.Raw = []byte(obj), []byte(old)
	return req
}

func TestDefaulter(t *testing.T) {
	tests := map[string]struct {
		operation admissionv1.Operation // default CREATE
		object    string
		prune     bool
		code      int32 // default 200
		message   string
		want      string // the patched object; default: no patch
		reason    metav1.StatusReason
	}{
		"added": {object: widget("a", `"size":1`), want: widget("a", `"size":1,"color":"blue by CREATE"`)},
		"changed": {operation: admissionv1.Update, object: widget("a", `"size":1,"color":"red"`),
			want: widget("a", `"size":1,"color":"blue by UPDATE"`)},
		"unchanged":              {object: widget("unchanged", `"size":1,"unknown":{"x":1},"color":""`)},
		"unknown fields stay":    {object: widget("a", `"size":1,"unknown":{"x":1}`), want: widget("a", `"size":1,"unknown":{"x":1},"color":"blue by CREATE"`)},
		"omitted zeros stay":     {object: widget("a", `"size":1,"tags":[]`), want: widget("a", `"size":1,"tags":[],"color":"blue by CREATE"`)},
		"cleared":                {object: widget("cleared", `"size":1,"color":"red","parts":[{"name":"x"}],"unknown":1`), want: widget("cleared", `"size":1,"unknown":1`)},
		"null becomes something": {object: widget("last", `"size":1,"parts":null`), want: widget("last", `"size":1,"parts":[{"name":"new"}]`)},
		"an element at the start": {object: widget("first", `"size":1,"parts":[{"name":"a","x":1},{"name":"b","count":0}]`),
			want: widget("first", `"size":1,"parts":[{"name":"new"},{"name":"a","x":1},{"name":"b","count":0}]`)},
		"an element at the end": {object: widget("last", `"size":1,"parts":[{"name":"a","x":1}]`),
			want: widget("last", `"size":1,"parts":[{"name":"a","x":1},{"name":"new"}]`)},
		"an element less": {object: widget("shorter", `"size":1,"parts":[{"name":"a","x":1},{"name":"b","x":2},{"name":"c","x":3}]`),
			want: widget("shorter", `"size":1,"parts":[{"name":"b","x":2},{"name":"c","x":3}]`)},
		"names that need to be escaped": {object: widget("labelled", `"size":1`),
			want: strings.Replace(widget("labelled", `"size":1`), `"name"`, `"labels":{"a/b~c":"d"},"name"`, 1)},
		"pruned": {prune: true, object: widget("a", `"size":1,"unknown":{"x":1},"tags":[],"parts":[{"name":"a","x":1}]`),
			want: widget("a", `"size":1,"parts":[{"name":"a"}],"color":"blue by CREATE"`)},
		"pruned though unchanged": {prune: true, object: widget("unchanged", `"size":1,"unknown":{"x":1}`), want: widget("unchanged", `"size":1`)},
		"deleted":                 {operation: admissionv1.Delete},
		"refused":                 {object: widget("refused", ``), code: 403, message: "no more colors", reason: metav1.StatusReasonForbidden},
		"invalid":                 {object: widget("invalid", ``), code: 422, message: `Widget.things.example.com "invalid" is invalid: spec.color: Required value: say one`, reason: metav1.StatusReasonInvalid},
		"nothing":                 {code: 400, message: "there is no content to decode"},
		"another version":         {object: strings.Replace(widget("a", ``), "/v1", "/v1beta1", 1), code: 400, message: "v1beta1"},
		"another kind":            {object: `{"apiVersion":"v1","kind":"Pod"}`, code: 400, message: "Pod"},
		"no object":               {object: `5`, code: 400},
		"another type":            {object: widget("a", `"size":"big"`), code: 400, message: "size"},
	}
	for name, test := range tests {
		var opts []DefaulterOption
		if test.prune {
			opts = append(opts, DefaulterRemoveUnknownOrOmitableFields)
		}
		hooks := map[string]*Webhook{
			"typed": WithDefaulter[*WidgetV1](widgetScheme(), colors{}, opts...),
			"any":   WithCustomDefaulter(widgetScheme(), &WidgetV1{Spec: WidgetSpec{Color: "of the sample"}}, anyDefaulter{}, opts...),
		}
		for kind, hook := range hooks {
			t.Run(name+"/"+kind, func(t *testing.T) {
				if test.operation == "" {
					test.operation = admissionv1.Create
				}
				if test.code == 0 {
					test.code = 200
				}
				resp := quiet(hook).Handle(t.Context(), requestOf(test.operation, test.object, ""))
				if resp.UID != "u" || resp.Allowed != (test.code == 200) || resp.Result.Code != test.code || resp.Result.Reason != test.reason {
					t.Fatalf("got %+v, %+v", resp, resp.Result)
				}
				contains(t, "message", resp.Result.Message, test.message)
				if test.want == "" {
					if len(resp.Patch) > 0 || resp.PatchType != nil {
						t.Errorf("got the patch %s", resp.Patch)
					}
					return
				}
				if got := applyPatch(t, test.object, resp.Patch); !jsonpatch.Equal(got, []byte(test.want)) {
					t.Errorf("got  %s\nwant %s\nby %s", got, test.want, resp.Patch)
				}
			})
		}
	}
}

// applyPatch applies a patch as API servers do.
func applyPatch(t *testing.T, doc string, patch []byte) []byte {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("the patch %s: %v", patch, err)
	}
	got, err := decoded.Apply([]byte(doc))
	if err != nil {
		t.Fatalf("the patch %s of %s: %v", patch, doc, err)
	}
	return got
}

// TestUnstructuredDefaulter checks that unstructured objects have no unknown fields.
func TestUnstructuredDefaulter(t *testing.T) {
	hook := WithDefaulter[*unstructured.Unstructured](runtime.NewScheme(), unstructuredDefaulter{})
	object := `{"kind":"Whatever","apiVersion":"v1","spec":{"x":9007199254740993,"y":1.50}}` // 2^53+1
	resp := quiet(hook).Handle(t.Context(), requestOf(admissionv1.Create, object, ""))
	if want := `[{"op":"remove","path":"/spec/y"},{"op":"add","path":"/spec/z","value":true}]`; string(resp.Patch) != want {
		t.Errorf("got %s, %v, want %s", resp.Patch, resp.Result, want)
	}
}

type unstructuredDefaulter struct{}

func (unstructuredDefaulter) Default(_ context.Context, u *unstructured.Unstructured) error {
	spec := u.Object["spec"].(map[string]any)
	spec["z"] = true
	delete(spec, "y")
	return nil
}

func TestValidator(t *testing.T) {
	const create, update, remove = admissionv1.Create, admissionv1.Update, admissionv1.Delete
	tests := map[string]struct {
		operation admissionv1.Operation
		obj, old  string
		code      int32
		reason    metav1.StatusReason
		message   string
		warnings  string
	}{
		"created": {operation: create, obj: widget("a", `"size":1`), code: 200, warnings: "created"},
		"invalid": {operation: create, obj: widget("a", `"size":101`), code: 422, reason: metav1.StatusReasonInvalid, warnings: "big",
			message: `Widget.things.example.com "a" is invalid: spec.size: Invalid value: 101: must be at most 100`},
		"refused":                {operation: create, obj: widget("a", `"size":-1`), code: 403, reason: metav1.StatusReasonForbidden, message: "smaller than nothing"},
		"updated":                {operation: update, obj: widget("a", `"size":2`), old: widget("a", `"size":1`), code: 200},
		"update refused":         {operation: update, obj: widget("a", `"size":1`), old: widget("a", `"size":2`), code: 403, reason: metav1.StatusReasonForbidden, message: "1 is less than 2", warnings: "shrinking"},
		"deleted":                {operation: remove, old: widget("a", ``), code: 200, warnings: "gone"},
		"not to be deleted":      {operation: remove, old: widget("kept", ``), code: 429, reason: metav1.StatusReasonTooManyRequests, message: "come again"},
		"connected":              {operation: admissionv1.Connect, obj: `{"kind":"PodExecOptions","apiVersion":"v1"}`, code: 200},
		"unknown operation":      {operation: "PET", obj: widget("a", ``), code: 400, message: `unknown operation "PET"`},
		"no operation":           {obj: widget("a", ``), code: 400, message: `unknown operation ""`},
		"nothing to create":      {operation: create, code: 400, message: "there is no content to decode"},
		"nothing to update":      {operation: update, old: widget("a", ``), code: 400, message: "there is no content to decode"},
		"nothing that was":       {operation: update, obj: widget("a", ``), code: 400, message: "the old object: there is no content to decode"},
		"nothing to delete":      {operation: remove, obj: widget("a", ``), code: 400, message: "there is no content to decode"},
		"a Pod":                  {operation: create, obj: `{"kind":"Pod","apiVersion":"v1"}`, code: 400, message: "Pod"},
		"what was of other kind": {operation: update, obj: widget("a", ``), old: `{"kind":"Pod","apiVersion":"v1"}`, code: 400, message: "Pod"},
	}
	for name, test := range tests {
		hooks := map[string]*Webhook{
			"typed": WithValidator[*WidgetV1](widgetScheme(), sizes{}),
			"any":   WithCustomValidator(widgetScheme(), &WidgetV1{}, anyValidator{}),
		}
		for kind, hook := range hooks {
			t.Run(name+"/"+kind, func(t *testing.T) {
				resp := quiet(hook).Handle(t.Context(), requestOf(test.operation, test.obj, test.old))
				if resp.UID != "u" || resp.Allowed != (test.code == 200) || resp.Result.Code != test.code || resp.Result.Reason != test.reason ||
					strings.Join(resp.Warnings, " ") != test.warnings {
					t.Errorf("got %+v, %+v", resp, resp.Result)
				}
				contains(t, "message", resp.Result.Message, test.message)
				if test.code == 422 && (resp.Result.Details == nil || len(resp.Result.Details.Causes) != 1) {
					t.Errorf("got the details %+v", resp.Result.Details)
				}
			})
		}
	}
}
