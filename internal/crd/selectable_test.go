package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const colours = `    selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.size}, {jsonPath: .spec.open}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {color: {type: string}, size: {type: integer}, open: {type: boolean}, note: {type: string}}
`

// painted returns a definition with selectable fields.
func painted() string {
	text := kind("widgets", "kind: Widget", colours)
	return strings.Replace(text, "    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n", "", 1)
}

func (a *api) names(path string) string {
	a.Helper()
	var names []string
	items, _ := a.must(200, "GET", path, "")["items"].([]any)
	for _, item := range items {
		names = append(names, at(item.(map[string]any), "metadata", "name").(string))
	}
	return strings.Join(names, " ")
}

func TestSelectableFields(t *testing.T) {
	a := newAPI(t)
	a.define(painted())
	for name, spec := range map[string]string{
		"a": "spec: {color: red, size: 1, open: true}", "b": "spec: {color: red, size: 2, open: false}",
		"c": "spec: {color: blue, size: 1}", "d": "spec: {note: none}", "e": "",
	} {
		a.must(201, "POST", widgetsPath, widget(name, spec))
	}
	for selector, want := range map[string]string{
		"spec.color=red":                 "a b",
		"spec.color%3D%3Dred":            "a b",
		"spec.color!=red":                "c d e",
		"spec.color=":                    "d e",
		"spec.size=1":                    "a c",
		"spec.size=1,spec.color=red":     "a",
		"spec.open=true":                 "a",
		"spec.open=false":                "b",
		"spec.color=red,metadata.name=b": "b",
		"spec.color=red,metadata.name=c": "",
		"metadata.namespace=default":     "a b c d e",
	} {
		if got := a.names(widgetsPath + "?fieldSelector=" + strings.ReplaceAll(selector, "!=", "!%3D")); got != want {
			t.Errorf("%s: %q, want %q", selector, got, want)
		}
	}
	if got := a.names("/apis/example.com/v1/widgets?limit=1&fieldSelector=spec.color%3Dred"); got != "a" {
		t.Errorf("the first page: %q", got)
	}
	for _, selector := range []string{"spec.note=x", "spec=x", "status.phase=x"} {
		for _, method := range []string{"GET", "DELETE"} {
			_, tree := a.do(method, widgetsPath+"?fieldSelector="+selector, "")
			label, _, _ := strings.Cut(selector, "=")
			if message := fmt.Sprint(tree["message"]); tree["code"] != float64(400) || !strings.Contains(message, "field label not supported: "+label) {
				t.Errorf("%s %s: %v", method, selector, tree)
			}
		}
	}
	// A deletecollection selects by the same rules.
	a.must(200, "DELETE", widgetsPath+"?fieldSelector=spec.color%3Dred,spec.size%3D2", "")
	if got := a.names(widgetsPath); got != "a c d e" {
		t.Errorf("after deletecollection: %q", got)
	}
	a.must(200, "DELETE", widgetsPath+"?fieldSelector=spec.color%3D", "")
	if got := a.names(widgetsPath); got != "a c" {
		t.Errorf("after deletecollection: %q", got)
	}
}

// TestWatchSelectableFields checks that a watch shows an object that enters the selection as added,
// and one that leaves it as deleted.
func TestWatchSelectableFields(t *testing.T) {
	a := newAPI(t)
	path := a.define(painted())
	a.must(201, "POST", widgetsPath, widget("a", "spec: {color: red}"))
	f := a.follow(widgetsPath + "?watch=true&fieldSelector=spec.color%3Dred")
	want := []string{"ADDED a red"}
	told := func() string {
		kind, obj := f.next()
		return fmt.Sprint(kind, " ", at(obj, "metadata", "name"), " ", at(obj, "spec", "color"))
	}
	step := func(events ...string) { want = append(want, events...) }
	a.patch(200, widgetsPath+"/a", `{"spec":{"note":"x"}}`)
	step("MODIFIED a red")
	a.patch(200, widgetsPath+"/a", `{"spec":{"color":"blue"}}`)
	step("DELETED a red")
	a.patch(200, widgetsPath+"/a", `{"spec":{"note":"y"}}`)
	a.must(201, "POST", widgetsPath, widget("b", "spec: {color: blue}"))
	a.patch(200, widgetsPath+"/b", `{"spec":{"color":"red"}}`)
	step("ADDED b red")
	a.patch(200, widgetsPath+"/a", `{"spec":{"color":"red"}}`)
	step("ADDED a red")
	a.must(200, "DELETE", widgetsPath+"/b", "")
	step("DELETED b red")
	a.patch(200, widgetsPath+"/a", `{"spec":{"color":null}}`)
	step("DELETED a red")
	a.must(200, "DELETE", widgetsPath+"/a", "")
	a.must(201, "POST", widgetsPath, widget("c", "spec: {color: red}"))
	step("ADDED c red")
	var got []string
	for range want {
		got = append(got, told())
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	// The definition drops the field: the watch ends, and the selector is rejected.
	a.patch(200, path, `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	if event := told(); !strings.HasPrefix(event, " ") {
		t.Errorf("event %q where the watch should have ended", event)
	}
	a.must(400, "GET", widgetsPath+"?fieldSelector=spec.color%3Dred", "")
	a.must(400, "GET", widgetsPath+"?watch=true&fieldSelector=spec.color%3Dred", "")
}

// TestWatchGoesOn checks that a watch survives changes of a definition that no object depends on:
// its metadata and status, and versions other than the watched one.
func TestWatchGoesOn(t *testing.T) {
	a := newAPI(t)
	path := a.define(painted())
	f := a.follow(widgetsPath + "?watch=true")
	a.patch(200, path, `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`)
	a.must(200, "PATCH", path+"/status", `[{"op":"add","path":"/status/conditions/-","value":
		{"type":"Mine","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}}]`, "Content-Type", "application/json-patch+json")
	a.patch(200, path, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	a.must(200, "DELETE", path, "")
	a.until("the end of its objects", path, func(_ int, tree map[string]any) bool { return conditionLine(tree, "Terminating") != "" })
	a.patch(200, path, `{"metadata":{"labels":{"a":"c"}}}`)
	a.until("the clean-up", path, func(_ int, tree map[string]any) bool {
		return conditionLine(tree, "Terminating") == "False InstanceDeletionCompleted removed all instances"
	})
	a.must(403, "POST", widgetsPath, widget("a", ""))
	a.patch(200, path, `{"metadata":{"finalizers":null}}`)
	if kind, obj := f.next(); kind != "" {
		t.Errorf("event %s %v where the watch should have ended", kind, obj)
	}
}
