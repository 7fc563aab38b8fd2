package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/convert"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// conversionOf returns a ConversionReview of v1 with a request with the uid u.
func conversionOf(desired string, objects ...string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"` + desired +
		`","objects":[` + strings.Join(objects, ",") + `]}}`
}

func postConversion(t *testing.T, hook http.Handler, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(logr.NewContext(t.Context(), logr.Discard()), http.MethodPost, ConvertPath, body)
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, r)
	return w
}

// converted sends a review and returns the response with its objects.
func converted(t *testing.T, hook http.Handler, review string) (resp apiextensionsv1.ConversionResponse, objects string) {
	t.Helper()
	w := postConversion(t, hook, strings.NewReader(review))
	var answer apiextensionsv1.ConversionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || answer.Response == nil {
		t.Fatalf("got %d %s: %v", w.Code, w.Body, err)
	}
	if answer.Request != nil || answer.Kind != "ConversionReview" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %s", w.Body)
	}
	var all []string
	for _, o := range answer.Response.ConvertedObjects {
		all = append(all, string(o.Raw))
	}
	return *answer.Response, strings.Join(all, "\n")
}

func alpha(name, size string) string {
	return `{"kind":"Widget","apiVersion":"things.example.com/v1alpha1","metadata":{"name":"` + name + `","namespace":"n","uid":"` + name + `-1","labels":{"a":"b"}},"size":"` + size + `"}`
}

func beta(name string, width, height int) string {
	return fmt.Sprintf(`{"kind":"Widget","apiVersion":"things.example.com/v1beta1","metadata":{"name":"%s","namespace":"n","uid":"%[1]s-1","labels":{"a":"b"}},"width":%d,"height":%d}`, name, width, height)
}

func hub(name string, size int) string {
	return fmt.Sprintf(`{"kind":"Widget","apiVersion":"things.example.com/v1","metadata":{"name":"%s","namespace":"n","uid":"%[1]s-1","labels":{"a":"b"}},"spec":{"size":%d}}`, name, size)
}

// ways are all ways to define the conversion of widgets.
func ways() map[string]func(*runtime.Scheme) (Converter, error) {
	return map[string]func(*runtime.Scheme) (Converter, error){
		"by themselves": nil,
		"by functions": NewHubSpokeConverter(&WidgetV1{},
			NewSpokeConverter(&WidgetV1alpha1{},
				func(_ context.Context, hub *WidgetV1, w *WidgetV1alpha1) error { return w.ConvertFrom(hub) },
				func(_ context.Context, w *WidgetV1alpha1, hub *WidgetV1) error { return w.ConvertTo(hub) }),
			NewSpokeConverter(&WidgetV1beta1{},
				func(_ context.Context, hub *WidgetV1, w *WidgetV1beta1) error { return w.ConvertFrom(hub) },
				func(_ context.Context, w *WidgetV1beta1, hub *WidgetV1) error { return w.ConvertTo(hub) })),
		"by rules": Convert(
			convert.Spoke(
				func(w *WidgetV1alpha1, hub *WidgetV1) error { return w.ConvertTo(hub) },
				func(hub *WidgetV1, w *WidgetV1alpha1) error {
					w.Size = strconv.Itoa(hub.Spec.Size)
					return nil
				}),
			convert.Spoke(
				func(w *WidgetV1beta1, hub *WidgetV1) error { return w.ConvertTo(hub) },
				func(hub *WidgetV1, w *WidgetV1beta1) error {
					w.Width, w.Height = hub.Spec.Size, hub.Spec.Size
					return nil
				})),
	}
}

func TestConversion(t *testing.T) {
	for way, converter := range ways() {
		m := newMgr()
		builder := NewWebhookManagedBy(m, &WidgetV1{})
		if converter != nil {
			builder.WithConverter(converter)
		}
		if err := builder.Complete(); err != nil {
			t.Fatal(err)
		}
		hook := at(m.server.WebhookMux(), ConvertPath)
		tests := map[string]struct{ review, want string }{
			"to the hub":        {conversionOf("things.example.com/v1", alpha("a", "1"), beta("b", 2, 2), alpha("c", "3")), hub("a", 1) + "\n" + hub("b", 2) + "\n" + hub("c", 3)},
			"from the hub":      {conversionOf("things.example.com/v1alpha1", hub("a", 1)), alpha("a", "1")},
			"through the hub":   {conversionOf("things.example.com/v1beta1", alpha("a", "1"), hub("b", 2)), beta("a", 1, 1) + "\n" + beta("b", 2, 2)},
			"there already":     {conversionOf("things.example.com/v1beta1", beta("a", 1, 2), alpha("b", "1")), beta("a", 1, 2) + "\n" + beta("b", 1, 1)},
			"nothing":           {conversionOf("things.example.com/v1"), ""},
			"v1beta1":           {strings.Replace(conversionOf("things.example.com/v1", alpha("a", "1")), "/v1", "/v1beta1", 1), hub("a", 1)},
			"no version at all": {`{"request":{"uid":"u","desiredAPIVersion":"things.example.com/v1","objects":[` + alpha("a", "1") + `]}}`, hub("a", 1)},
		}
		for name, test := range tests {
			t.Run(way+"/"+name, func(t *testing.T) {
				resp, got := converted(t, hook, test.review)
				if resp.UID != "u" || resp.Result.Status != "Success" || got != test.want {
					t.Errorf("got  %s %+v\n%s\nwant %s", resp.UID, resp.Result, got, test.want)
				}
			})
		}
		failures := map[string]struct{ review, want string }{
			"one fails, all fail": {conversionOf("things.example.com/v1", alpha("a", "1"), alpha("b", "x")), "objects[1]: Widget n/b (b-1) to things.example.com/v1: "},
			"why":                 {conversionOf("things.example.com/v1", alpha("b", "x")), "size x is no number"},
			"on the way":          {conversionOf("things.example.com/v1alpha1", beta("b", 1, 2)), "width and height must be equal"},
			"panic":               {conversionOf("things.example.com/v1", alpha("panicking", "1")), "panic: a widget that panics [recovered]"},
			"renamed":             {conversionOf("things.example.com/v1", alpha("renamed", "1")), "name, namespace and uid must not change, but are now n/other (renamed-1)"},
			"unknown version":     {conversionOf("things.example.com/v2", alpha("a", "1")), `"things.example.com/v2"`},
			"another group":       {conversionOf("example.com/v1", alpha("a", "1")), "the groups differ"},
			"unknown kind":        {conversionOf("things.example.com/v1", `{"apiVersion":"things.example.com/v1beta1","kind":"Gadget"}`), "Gadget"},
			"no kind":             {conversionOf("things.example.com/v1", `{"a":1}`), "objects[0]: "},
			"no object":           {conversionOf("things.example.com/v1", `null`), "objects[0]: "},
			"no desired version":  {conversionOf("", alpha("a", "1")), `desiredAPIVersion "" is not a version`},
			"another type":        {conversionOf("things.example.com/v1", strings.Replace(alpha("a", "1"), `"1"`, `1`, 1)), "size"},
		}
		for name, test := range failures {
			t.Run(way+"/"+name, func(t *testing.T) {
				resp, got := converted(t, hook, test.review)
				if resp.UID != "u" || resp.Result.Status != "Failure" || got != "" {
					t.Errorf("got %s %+v\n%s", resp.UID, resp.Result, got)
				}
				contains(t, "message", resp.Result.Message, test.want)
			})
		}
	}
}

func TestBadConversionReviews(t *testing.T) {
	hook := NewConversionHandler(widgetScheme(), nil)
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "{", "another JSON": "[]", "no request": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`,
		"another version": strings.Replace(conversionOf("things.example.com/v1"), "/v1", "/v2", 1), "an AdmissionReview": reviewOf(``),
	} {
		if w := postConversion(t, hook, strings.NewReader(body)); w.Code != 400 || w.Body.Len() == 0 {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	if w := postConversion(t, hook, io.LimitReader(endless{}, maxConversionReview+1)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestConversionGivesUp checks that a conversion ends when its request is cancelled.
func TestConversionGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, ConvertPath, strings.NewReader(conversionOf("things.example.com/v1", alpha("a", "1"))))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	NewConversionHandler(widgetScheme(), nil).ServeHTTP(w, r)
	contains(t, "answer", w.Body.String(), `"uid":"u"`, `"status":"Failure"`, "context canceled")
}

func TestConverters(t *testing.T) {
	m := newMgr()
	spoke := func(obj runtime.Object) SpokeConverter[*WidgetV1] {
		return NewSpokeConverter(obj, func(context.Context, *WidgetV1, runtime.Object) error { return nil },
			func(context.Context, runtime.Object, *WidgetV1) error { return errors.New("no way") })
	}
	gadgets := widgetScheme()
	gadgets.AddKnownTypeWithName(v1.WithKind("Gadget"), &unconvertible{})
	a, b := spoke(&WidgetV1alpha1{}), spoke(&WidgetV1beta1{})
	for want, spokes := range map[string][]SpokeConverter[*WidgetV1]{
		"Kind=Widget has no spoke":                   {a},
		"Kind=Widget is given twice":                 {a, a, b},
		"is both a spoke and the hub":                {a, b, spoke(&WidgetV1{})},
		"is not a version of Widget.things.example.": {a, spoke(&unconvertible{})},
		"a spoke of Widget.things.example.com: ":     {a, spoke(&stranger{})},
	} {
		if _, err := NewHubSpokeConverter(&WidgetV1{}, spokes...)(gadgets); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := NewWebhookManagedBy(m, &WidgetV1{}).WithConverter(NewHubSpokeConverter(&WidgetV1{}, a, b)).Complete(); err != nil {
		t.Fatal(err)
	}
	err := NewWebhookManagedBy(m, &WidgetV1{}).WithConverter(NewHubSpokeConverter(&WidgetV1{}, a, b)).Complete()
	if err == nil || !strings.Contains(err.Error(), "a converter of Widget.things.example.com is already registered") {
		t.Errorf("got %v", err)
	}
	resp, _ := converted(t, at(m.server.WebhookMux(), ConvertPath), conversionOf("things.example.com/v1beta1", alpha("a", "1")))
	contains(t, "message", resp.Result.Message, "to the hub things.example.com/v1, Kind=Widget: no way")
}

type stranger struct{ unconvertible }

func (s *stranger) DeepCopyObject() runtime.Object { out := *s; return &out }

func FuzzConversionReview(f *testing.F) {
	for _, seed := range []string{``, `null`, conversionOf("things.example.com/v1", alpha("a", "1"), beta("b", 2, 2)),
		conversionOf("things.example.com/v1beta1", hub("a", 1), `null`, `5`), conversionOf("v1", `{"kind":"Pod","apiVersion":"v1"}`)} {
		f.Add([]byte(seed))
	}
	hook := NewConversionHandler(widgetScheme(), nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := postConversion(t, hook, strings.NewReader(string(body)))
		if w.Code == 400 {
			return
		}
		var sent, answer apiextensionsv1.ConversionReview
		if err := errors.Join(json.Unmarshal(body, &sent), json.Unmarshal(w.Body.Bytes(), &answer)); err != nil || answer.Response == nil {
			t.Fatalf("%s: got %d %s: %v", body, w.Code, w.Body, err)
		}
		if answer.Response.Result.Status == "Success" && len(answer.Response.ConvertedObjects) != len(sent.Request.Objects) {
			t.Errorf("%s: got %s", body, w.Body)
		}
	})
}
