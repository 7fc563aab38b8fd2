package crd_test

import (
	"fmt"
	"strings"
	"testing"
)

const widgetsPath = "/apis/example.com/v1/namespaces/default/widgets"

func widget(name, rest string) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %s}\n%s", name, rest)
}

// TestNamesOfHolders checks that each freed name is granted to one definition that waits for it,
// and that definitions stay served under their old names while they wait.
func TestNamesOfHolders(t *testing.T) {
	a := newAPI(t)
	holder := a.define(kind("widgets", "kind: Widget, shortNames: [w]", ""))
	served := a.define(kind("gadgets", "kind: Gadget, shortNames: [g]", ""))
	for _, plural := range []string{"bees", "ants"} {
		a.must(201, "POST", crdsPath, kind(plural, "kind: Widget, singular: "+plural[:3]+", listKind: "+strings.ToUpper(plural[:1])+"List", ""))
		a.until("a verdict on "+plural, crdsPath+"/"+plural+".example.com", func(_ int, tree map[string]any) bool {
			return conditionLine(tree, "NamesAccepted") == `False KindConflict "Widget" is already in use` &&
				conditionLine(tree, "Established") == "False NotAccepted not all names are accepted"
		})
	}
	a.patch(200, served, `{"spec":{"names":{"shortNames":["g","w"],"kind":"Gadget","categories":["all"]}}}`)
	refused := a.until("a refusal", served, func(_ int, tree map[string]any) bool { return condition(tree, "NamesAccepted") == "False" })
	if got := conditionLine(refused, "NamesAccepted"); got != `False ShortNamesConflict "w" is already in use` {
		t.Error(got)
	}
	if condition(refused, "Established") != "True" || fmt.Sprint(at(refused, "status", "acceptedNames", "shortNames")) != "[g]" {
		t.Errorf("status %v", refused["status"])
	}
	if list := fmt.Sprint(a.must(200, "GET", "/apis/example.com/v1", "")); !strings.Contains(list, "shortNames:[g]") || !strings.Contains(list, "categories:[all]") {
		t.Errorf("served: %s", list)
	}

	a.must(200, "DELETE", holder, "")
	a.until("the short name", served, func(_ int, tree map[string]any) bool { return condition(tree, "NamesAccepted") == "True" })
	a.until("the kind", crdsPath+"/ants.example.com", func(_ int, tree map[string]any) bool { return condition(tree, "Established") == "True" })
	if bees := a.must(200, "GET", crdsPath+"/bees.example.com", ""); condition(bees, "Established") != "False" {
		t.Errorf("two have the kind: %v", bees["status"])
	}
	a.must(201, "POST", "/apis/example.com/v1/namespaces/default/ants", widget("a", ""))
	a.must(404, "GET", "/apis/example.com/v1/bees", "")

	// Both a renamed and a deleted definition free their names.
	a.patch(200, crdsPath+"/bees.example.com", `{"spec":{"names":{"shortNames":["g"]}}}`)
	a.patch(200, served, `{"spec":{"names":{"shortNames":["w"]}}}`)
	a.until("the other short name", crdsPath+"/bees.example.com", func(_ int, tree map[string]any) bool {
		return fmt.Sprint(at(tree, "status", "acceptedNames", "shortNames")) == "[g]"
	})
	a.must(200, "DELETE", crdsPath+"/ants.example.com", "")
	a.until("the kind for the last", crdsPath+"/bees.example.com", func(_ int, tree map[string]any) bool { return condition(tree, "Established") == "True" })
	a.must(200, "GET", "/apis/example.com/v1/bees", "")
}

// TestBuiltInNames checks that names of a built-in kind are refused: the built-in kind stays
// served, and the definition is never served.
func TestBuiltInNames(t *testing.T) {
	a := newAPI(t)
	const name = "leases.coordination.k8s.io"
	text := strings.NewReplacer("leases.example.com", name, "group: example.com", "group: coordination.k8s.io",
		"metadata: {", `metadata: {annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/1"}, `)
	a.must(201, "POST", crdsPath, text.Replace(kind("leases", "kind: Lease", "")))
	a.until("a refusal", crdsPath+"/"+name, func(_ int, tree map[string]any) bool {
		return conditionLine(tree, "NamesAccepted") == `False ListKindConflict "LeaseList" is already in use` && condition(tree, "Established") == "False"
	})
	a.must(422, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {leaseDurationSeconds: 0}}")
	a.must(201, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}")
	a.must(200, "DELETE", crdsPath+"/"+name, "")
	a.until("the definition to go", crdsPath+"/"+name, func(code int, _ map[string]any) bool { return code == 404 })
	a.must(200, "GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/a", "")
}

// TestRecreate deletes a definition while a finalizer holds an object, and creates it again.
func TestRecreate(t *testing.T) {
	a := newAPI(t)
	text := kind("widgets", "kind: Widget", "")
	path := a.define(text)
	a.must(201, "POST", widgetsPath, widget("free", ""))
	held := a.must(201, "POST", widgetsPath, widget("held, finalizers: [example.com/hold]", "spec: {a: b}"))
	first := at(a.must(200, "GET", path, ""), "metadata", "uid")

	gone := a.must(200, "DELETE", path, "")
	if got := conditionLine(gone, "Terminating"); got != "True InstanceDeletionPending CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon" {
		t.Errorf("answer: %q", got)
	}
	waits := a.until("all but one to go", path, func(_ int, tree map[string]any) bool {
		code, _ := a.do("GET", widgetsPath+"/free", "")
		return conditionLine(tree, "Terminating") == "True InstanceDeletionInProgress CustomResource deletion is in progress" && code == 404
	})
	if fmt.Sprint(at(waits, "metadata", "finalizers")) != "[customresourcecleanup.apiextensions.k8s.io]" || condition(waits, "Established") != "True" {
		t.Errorf("while the object exists: %v %v", waits["metadata"], waits["status"])
	}
	if code, tree := a.do("POST", crdsPath, text); code != 409 || tree["reason"] != "AlreadyExists" ||
		tree["message"] != `object is being deleted: customresourcedefinitions.apiextensions.k8s.io "widgets.example.com" already exists` {
		t.Errorf("created again: %d %v", code, tree)
	}
	if code, tree := a.do("POST", widgetsPath, widget("late", "")); code != 403 || !strings.Contains(fmt.Sprint(tree["message"]), "create not allowed while custom resource definition is terminating") {
		t.Errorf("an object of it: %d %v", code, tree)
	}
	// Existing objects can be read and written, so that their finalizers can be removed.
	a.must(200, "GET", widgetsPath+"/held", "")
	a.patch(200, widgetsPath+"/held", `{"metadata":{"finalizers":null}}`)
	a.until("the definition to go", path, func(code int, _ map[string]any) bool { return code == 404 })
	// The kind is removed shortly after its last object.
	a.until("the kind to go", widgetsPath, func(code int, _ map[string]any) bool { return code == 404 })
	a.must(404, "GET", "/apis/example.com", "")

	a.define(text)
	again := a.must(200, "GET", path, "")
	if at(again, "metadata", "uid") == first || at(again, "metadata", "deletionTimestamp") != nil {
		t.Errorf("the old definition: %v", again["metadata"])
	}
	if items := a.must(200, "GET", widgetsPath, "")["items"]; fmt.Sprint(items) != "[]" {
		t.Errorf("objects of the old definition: %v", items)
	}
	if same := a.must(201, "POST", widgetsPath, widget("held", "")); at(same, "metadata", "uid") == at(held, "metadata", "uid") {
		t.Error("a deleted object exists again")
	}
}

// TestRecreateAtOnce deletes and recreates a definition without pause: no definition shows objects
// of an earlier one.
func TestRecreateAtOnce(t *testing.T) {
	a := newAPI(t)
	text := kind("widgets", "kind: Widget", "")
	uids := map[any]bool{}
	for i := range 30 {
		path := a.define(text)
		if items := a.must(200, "GET", widgetsPath, "")["items"]; fmt.Sprint(items) != "[]" {
			t.Fatalf("round %d: %v", i, items)
		}
		obj := a.must(201, "POST", widgetsPath, widget("a", ""))
		uids[at(obj, "metadata", "uid")] = true
		f := a.follow(widgetsPath + "?watch=true&resourceVersion=" + at(obj, "metadata", "resourceVersion").(string))
		a.must(200, "DELETE", path, "")
		if event, _ := f.next(); event != "DELETED" {
			t.Errorf("round %d: event %s", i, event)
		}
		if event, _ := f.next(); event != "" {
			t.Errorf("round %d: event %s after the end", i, event)
		}
		a.until("the definition to go", path, func(code int, _ map[string]any) bool { return code == 404 })
	}
	if len(uids) != 30 {
		t.Errorf("%d uids in 30 rounds", len(uids))
	}
}

// TestApproval checks the condition on definitions in the groups of the Kubernetes community.
func TestApproval(t *testing.T) {
	a := newAPI(t)
	approved := func(plural, annotation string) string {
		return strings.NewReplacer("."+"example.com", ".demo.k8s.io", "group: example.com", "group: demo.k8s.io",
			"metadata: {", "metadata: {"+annotation).Replace(kind(plural, "kind: "+strings.ToUpper(plural[:1])+plural[1:], ""))
	}
	for plural, c := range map[string]struct{ annotation, condition string }{
		"ones": {`annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/78458"}, `, "True ApprovedAnnotation "},
		"twos": {`annotations: {api-approved.kubernetes.io: "unapproved, an experiment"}, `, "False UnapprovedAnnotation "},
	} {
		path := crdsPath + "/" + plural + ".demo.k8s.io"
		a.must(201, "POST", crdsPath, approved(plural, c.annotation))
		a.until("a verdict", path, func(_ int, tree map[string]any) bool { return condition(tree, "Established") == "True" })
		if got := conditionLine(a.must(200, "GET", path, ""), "KubernetesAPIApprovalPolicyConformant"); !strings.HasPrefix(got, c.condition) {
			t.Errorf("%s: %q, want %q", plural, got, c.condition)
		}
	}
	for annotation, message := range map[string]string{
		"": "metadata.annotations[api-approved.kubernetes.io]: Required value",
		`annotations: {api-approved.kubernetes.io: "certainly"}, `: "metadata.annotations[api-approved.kubernetes.io]: Invalid value",
	} {
		if tree := a.must(422, "POST", crdsPath, approved("threes", annotation)); !strings.Contains(fmt.Sprint(tree["message"]), message) {
			t.Errorf("%q: %v", annotation, tree["message"])
		}
	}
	path := crdsPath + "/twos.demo.k8s.io"
	a.patch(200, path, `{"metadata":{"annotations":{"api-approved.kubernetes.io":"https://github.com/kubernetes/kubernetes/pull/1"}}}`)
	a.until("the approval", path, func(_ int, tree map[string]any) bool {
		return strings.HasPrefix(conditionLine(tree, "KubernetesAPIApprovalPolicyConformant"), "True ApprovedAnnotation approved in https://")
	})
	if tree := a.must(200, "GET", a.define(kind("widgets", "kind: Widget", "")), ""); condition(tree, "KubernetesAPIApprovalPolicyConformant") != "" {
		t.Error("a condition in a group that needs no approval")
	}
}

// TestNonStructural checks definitions of v1beta1, whose schemas need not be structural.
func TestNonStructural(t *testing.T) {
	a := newAPI(t)
	a.must(201, "POST", betaPath, `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  version: v1
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  validation: {openAPIV3Schema: {properties: {spec: {properties: {size: {type: integer, minimum: 1}}}}}}
`)
	path := crdsPath + "/widgets.example.com"
	tree := a.until("the definition", path, func(_ int, tree map[string]any) bool { return condition(tree, "Established") == "True" })
	got := conditionLine(tree, "NonStructuralSchema")
	for _, want := range []string{
		"True Violations [spec.preserveUnknownFields: Invalid value: true: must be false, ",
		"spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("condition %q, want %q", got, want)
		}
	}
	// No field is pruned.
	obj := a.must(201, "POST", widgetsPath, widget("a", "spec: {size: 3, more: {of: it}}\nelse: 1"))
	if fmt.Sprint(obj["spec"], obj["else"]) != "map[more:map[of:it] size:3] 1" {
		t.Errorf("created: %v", obj)
	}
	// An update as v1 may keep the violation, or fix it; once fixed it cannot come back.
	a.patch(200, path, `{"metadata":{"labels":{"a":"b"}}}`)
	if tree := a.must(422, "PATCH", path, `{"spec":{"preserveUnknownFields":false}}`, "Content-Type", asMerge); !strings.Contains(fmt.Sprint(tree["message"]), "must not be empty") {
		t.Errorf("not structural: %v", tree["message"])
	}
	a.patch(200, path, `{"spec":{"preserveUnknownFields":false,"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`)
	a.until("the condition to go", path, func(_ int, tree map[string]any) bool { return conditionLine(tree, "NonStructuralSchema") == "" })
	if obj := a.must(200, "GET", widgetsPath+"/a", ""); fmt.Sprint(obj["spec"], obj["else"]) != "map[size:3] <nil>" {
		t.Errorf("read by the structural schema: %v", obj)
	}
	if tree := a.must(422, "PATCH", path, `{"spec":{"preserveUnknownFields":true}}`, "Content-Type", asMerge); !strings.Contains(fmt.Sprint(tree["message"]),
		"spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead") {
		t.Errorf("back: %v", tree["message"])
	}
}

// TestImmutable checks that an established definition rejects changes of some fields, most of which
// may change before.
func TestImmutable(t *testing.T) {
	a := newAPI(t)
	path := a.define(kind("widgets", "kind: Widget", ""))
	for patch, want := range map[string]string{
		`{"spec":{"scope":"Cluster"}}`:            `spec.scope: Invalid value: "Cluster": field is immutable`,
		`{"spec":{"group":"example.org"}}`:        `spec.group: Invalid value: "example.org": field is immutable`,
		`{"spec":{"names":{"plural":"gadgets"}}}`: `spec.names.plural: Invalid value: "gadgets": field is immutable`,
	} {
		if tree := a.must(422, "PATCH", path, patch, "Content-Type", asMerge); !strings.Contains(fmt.Sprint(tree["message"]), want) {
			t.Errorf("%s: %v", patch, tree["message"])
		}
	}
	a.must(201, "POST", crdsPath, kind("others", "kind: Widget, singular: other, listKind: OtherList", ""))
	other := crdsPath + "/others.example.com"
	a.until("a refusal", other, func(_ int, tree map[string]any) bool { return condition(tree, "NamesAccepted") == "False" })
	a.patch(200, other, `{"spec":{"scope":"Cluster","names":{"kind":"Other"}}}`)
	a.until("the other to be established", other, func(_ int, tree map[string]any) bool { return condition(tree, "Established") == "True" })
	a.must(200, "GET", "/apis/example.com/v1/others", "")
	a.must(404, "GET", "/apis/example.com/v1/namespaces/default/others", "")
	a.must(422, "PATCH", other, `{"spec":{"scope":"Namespaced"}}`, "Content-Type", asMerge)
}

// TestServedWhenEstablished requests all endpoints of a kind as soon as a watch of its definition
// shows that it is established.
func TestServedWhenEstablished(t *testing.T) {
	a := newAPI(t)
	f := a.follow(crdsPath + "?watch=true")
	for i := range 30 {
		plural := fmt.Sprintf("widget%ds", i)
		a.must(201, "POST", crdsPath, kind(plural, fmt.Sprintf("kind: Widget%d", i), ""))
		for event, obj := f.next(); condition(obj, "Established") != "True"; event, obj = f.next() {
			if event == "" {
				t.Fatal("the watch has ended")
			}
		}
		const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		for _, document := range []struct{ path, accept, has string }{
			{"/apis", "application/json", "name:example.com"},
			{"/apis", aggregated, "resource:" + plural + " "},
			{"/apis/example.com/v1", "application/json", "name:" + plural + " "},
			{"/openapi/v3", "application/json", "apis/example.com/v1"},
			{"/openapi/v3/apis/example.com/v1", "application/json", fmt.Sprintf("com.example.v1.Widget%d:", i)},
			{"/openapi/v2", "application/json", fmt.Sprintf("com.example.v1.Widget%d:", i)},
		} {
			if document.path == "/openapi/v2" && i > 0 {
				continue // a large document
			}
			if tree := fmt.Sprint(a.must(200, "GET", document.path, "", "Accept", document.accept)); !strings.Contains(tree, document.has) {
				t.Errorf("%s has no %s", document.path, document.has)
			}
		}
		a.must(201, "POST", "/apis/example.com/v1/namespaces/default/"+plural,
			fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget%d\nmetadata: {name: a}", i))
	}
}
