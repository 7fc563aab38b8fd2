package cost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A growing is a request whose body grows by doubling.
type growing struct {
	name, method, path, contentType string
	// body is of about n elements.
	body func(n int) string
}

const (
	jsonType       = "application/json"
	yamlType       = "application/yaml"
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategic      = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
	things         = "/apis/example.com/v1/namespaces/default/things"
	pods           = "/api/v1/namespaces/default/pods"
	configMaps     = "/api/v1/namespaces/default/configmaps"
	accessReviews  = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	claims         = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	policies       = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	storageClasses = "/apis/storage.k8s.io/v1/storageclasses"
	definitions    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// thingDefinition has a field for each way in which values of custom resources are validated.
const thingDefinition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
	"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
	"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
		"any": {"x-kubernetes-preserve-unknown-fields": true},
		"numbers": {"type": "array", "items": {"type": "integer", "minimum": 5}},
		"texts": {"type": "array", "items": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$", "enum": ["a", "b"]}},
		"objects": {"type": "array", "items": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}}},
		"defaults": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "object", "default": {"b": [1, 2, 3], "c": "some text that is longer than what was sent"}, "x-kubernetes-preserve-unknown-fields": true}}}},
		"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
		"map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}},
		"pairs": {"type": "object", "additionalProperties": {"type": "string", "format": "ipv4"}},
		"rules": {"type": "array", "maxItems": 100000, "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n > 5"}]}}
	}}}}}}]}}`

func thing(spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"generateName":"t"},"spec":{` + spec + `}}`
}

// list is n elements, with their number for %d, between commas.
func list(n int, element string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(element, "%") {
			fmt.Fprintf(&b, element, i)
		} else {
			b.WriteString(element)
		}
	}
	return b.String()
}

func things1(field, element string) func(n int) string {
	return func(n int) string { return thing(`"` + field + `":[` + list(n, element) + `]`) }
}

func growings() []growing {
	post := func(name, path string, body func(n int) string) growing {
		return growing{name, "POST", path + "?dryRun=All", jsonType, body}
	}
	patch := func(name, path, contentType string, body func(n int) string) growing {
		path += "?dryRun=All&fieldManager=m"
		if contentType == applyPatch {
			path += "&force=true" // invalid for other patches
		}
		return growing{name, "PATCH", path, contentType, body}
	}
	return []growing{
		post("custom: unknown fields", things, func(n int) string { return thing(list(n, `"x%d":1`)) }),
		post("custom: the same key", things, func(n int) string { return thing(list(n, `"numbers":[]`)) }),
		post("custom: any numbers", things, things1("any", "1")),
		post("custom: any objects", things, things1("any", "{}")),
		post("custom: bad numbers", things, things1("numbers", "1")),
		post("custom: texts for numbers", things, things1("numbers", `""`)),
		post("custom: bad texts", things, things1("texts", `"%d"`)),
		post("custom: objects without what is required", things, things1("objects", "{}")),
		post("custom: objects that are null", things, things1("objects", "null")),
		post("custom: short objects with long defaults", things, things1("defaults", "{}")),
		post("custom: a set", things, things1("set", `"%d"`)),
		post("custom: a set of the same", things, things1("set", `"a"`)),
		post("custom: a map", things, things1("map", `{"k":"%d"}`)),
		post("custom: a map of the same", things, things1("map", `{"k":"a"}`)),
		post("custom: a map without keys", things, things1("map", `{}`)),
		post("custom: pairs", things, func(n int) string { return thing(`"pairs":{` + list(n, `"k%d":"no address"`) + `}`) }),
		post("custom: rules", things, things1("rules", `{"n":1}`)),
		post("custom: deep objects", things, func(n int) string {
			n = min(n, 2400)
			return thing(`"any":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
		}),
		post("custom: unknown fields in depth", things, func(n int) string {
			n = min(n, 2400)
			return thing(`"objects":[` + strings.Repeat(`{"x":`, n) + "1" + strings.Repeat("}", n) + "]")
		}),
		post("built-in: unknown fields", configMaps, func(n int) string { return `{"metadata":{"generateName":"a"},` + list(n, `"x%d":1`) + `}` }),
		post("built-in: the same key", configMaps, func(n int) string { return `{"metadata":{"generateName":"a"},` + list(n, `"data":{}`) + `}` }),
		post("built-in: the same key inside", configMaps, func(n int) string {
			return `{"metadata":{"generateName":"a"},"data":{` + list(n, `"a":""`) + `}}`
		}),
		post("built-in: managed fields", configMaps, func(n int) string {
			return `{"metadata":{"generateName":"a","managedFields":[` + list(n, `{"manager":"m%d","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}`) + `]}}`
		}),
		post("built-in: one set of managed fields", configMaps, func(n int) string {
			return `{"metadata":{"generateName":"a","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{` + list(n, `"f:k%d":{}`) + `}}]}}`
		}),
		post("review: extra", "/apis/authorization.k8s.io/v1/subjectaccessreviews", func(n int) string {
			return `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"a","extra":{` + list(n, `"k%d":["a"]`) + `},"nonResourceAttributes":{"path":"/","verb":"get"}}}`
		}),
		post("review: groups", "/apis/authorization.k8s.io/v1/subjectaccessreviews", func(n int) string {
			return `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"a","groups":[` + list(n, `"g%d"`) + `],"nonResourceAttributes":{"path":"/","verb":"get"}}}`
		}),
		post("review: a selector that is wrong", accessReviews, func(n int) string {
			return `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"list","resource":"pods","labelSelector":{"requirements":[` + list(n, `{"key":"-%d","operator":"In"}`) + `]}}}}`
		}),
		{"YAML: a list", "POST", things + "?dryRun=All", yamlType, func(n int) string {
			return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {generateName: t}\nspec:\n  any:\n" + strings.Repeat("  - a: 1\n", n)
		}},
		{"YAML: the same key", "POST", things + "?dryRun=All", yamlType, func(n int) string {
			return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {generateName: t}\nspec:\n  any:\n" + strings.Repeat("    a: 1\n", n)
		}},
		{"YAML: anchors", "POST", things + "?dryRun=All", yamlType, func(n int) string {
			return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {generateName: t}\nspec:\n  any:\n  - &a {b: 1}\n" + strings.Repeat("  - *a\n", n)
		}},
		patch("merge patch: unknown fields", things+"/old", mergePatch, func(n int) string { return `{"spec":{` + list(n, `"x%d":1`) + `}}` }),
		patch("merge patch: any", things+"/old", mergePatch, func(n int) string { return `{"spec":{"any":{` + list(n, `"x%d":1`) + `}}}` }),
		patch("merge patch: bad numbers", things+"/old", mergePatch, func(n int) string { return `{"spec":{"numbers":[` + list(n, `1`) + `]}}` }),
		patch("JSON patch: append", things+"/old", jsonPatch, func(n int) string { return "[" + list(n, `{"op":"add","path":"/spec/any/-","value":1}`) + "]" }),
		patch("JSON patch: insert", things+"/old", jsonPatch, func(n int) string { return "[" + list(n, `{"op":"add","path":"/spec/any/0","value":{}}`) + "]" }),
		patch("JSON patch: test", things+"/old", jsonPatch, func(n int) string { return "[" + list(n, `{"op":"test","path":"/spec/any","value":[]}`) + "]" }),
		patch("JSON patch: new keys", things+"/old", jsonPatch, func(n int) string { return "[" + list(n, `{"op":"add","path":"/spec/x%d","value":{}}`) + "]" }),
		patch("JSON patch: move", things+"/old", jsonPatch, func(n int) string { return "[" + list(n, `{"op":"move","from":"/spec/any","path":"/spec/any"}`) + "]" }),
		patch("JSON patch: copy and remove", things+"/old", jsonPatch, func(n int) string {
			return "[" + list(n, `{"op":"copy","from":"/spec","path":"/x"},{"op":"remove","path":"/x"}`) + "]"
		}),
		patch("JSON patch: a long path", things+"/old", jsonPatch, func(n int) string { return `[{"op":"add","path":"` + strings.Repeat("/a", n) + `","value":1}]` }),
		patch("strategic: merge keys", pods+"/old", strategic, func(n int) string { return `{"spec":{"containers":[` + list(n, `{"name":"c%d"}`) + `]}}` }),
		patch("strategic: the same merge key", pods+"/old", strategic, func(n int) string { return `{"spec":{"containers":[` + list(n, `{"name":"c"}`) + `]}}` }),
		patch("strategic: delete", pods+"/old", strategic, func(n int) string {
			return `{"spec":{"containers":[` + list(n, `{"name":"c%d","$patch":"delete"}`) + `]}}`
		}),
		patch("strategic: order", pods+"/old", strategic, func(n int) string {
			return `{"spec":{"$setElementOrder/containers":[` + list(n, `{"name":"c%d"}`) + `],"containers":[` + list(n, `{"name":"c%d"}`) + `]}}`
		}),
		patch("strategic: delete from primitive list", pods+"/old", strategic, func(n int) string {
			return `{"metadata":{"$deleteFromPrimitiveList/finalizers":[` + list(n, `"a%d"`) + `]}}`
		}),
		patch("strategic: finalizers", pods+"/old", strategic, func(n int) string { return `{"metadata":{"finalizers":[` + list(n, `"a/b%d"`) + `]}}` }),
		patch("apply: a list", pods+"/old", applyPatch, func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"old"},"spec":{"containers":[` + list(n, `{"name":"c%d"}`) + `]}}`
		}),
		patch("apply: the same key", pods+"/old", applyPatch, func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"old"},"spec":{"containers":[` + list(n, `{"name":"c"}`) + `]}}`
		}),
		patch("apply: unknown fields", things+"/old", applyPatch, func(n int) string {
			return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"old"},"spec":{` + list(n, `"x%d":1`) + `}}`
		}),
		patch("apply: a map", things+"/old", applyPatch, func(n int) string {
			return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"old"},"spec":{"map":[` + list(n, `{"k":"%d","v":"a"}`) + `]}}`
		}),
		patch("apply: a set", things+"/old", applyPatch, func(n int) string {
			return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"old"},"spec":{"set":[` + list(n, `"%d"`) + `]}}`
		}),
		patch("apply: a set of the same", things+"/old", applyPatch, func(n int) string {
			return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"old"},"spec":{"set":[` + list(n, `"a"`) + `]}}`
		}),
		patch("apply: YAML", things+"/old", applyPatch, func(n int) string {
			return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: old}\nspec:\n  any:\n" + strings.Repeat("  - a: 1\n", n)
		}),
		patch("apply: conflicts", things+"/taken", applyPatch, func(n int) string {
			return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"taken"},"spec":{"any":{` + list(min(n, 2000), `"k%d":2`) + `}}}`
		}),
		{"update: a wide object", "PUT", things + "/old?dryRun=All", jsonType, func(n int) string {
			return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"old"},"spec":{"any":{` + list(n, `"x%d":1`) + `}}}`
		}},
		{"delete: options", "DELETE", pods + "/old?dryRun=All", jsonType, func(n int) string {
			return `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":[` + list(n, `"All"`) + `]}`
		}},
		{"delete: unknown options", "DELETE", pods + "/old?dryRun=All", jsonType, func(n int) string {
			return `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"],` + list(n, `"x%d":1`) + `}`
		}},
		{"delete collection: options", "DELETE", pods + "?dryRun=All", jsonType, func(n int) string {
			return `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":[` + list(n, `"x%d"`) + `]}`
		}},
		post("token: audiences", "/api/v1/namespaces/default/serviceaccounts/default/token", func(n int) string {
			return `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"audiences":[` + list(n, `"a%d"`) + `]}}`
		}),
		post("review: a token", "/apis/authentication.k8s.io/v1/tokenreviews", func(n int) string {
			return `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{"token":"` + strings.Repeat("a.", n) + `","audiences":[` + list(n, `"a%d"`) + `]}}`
		}),
		post("review: rules", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", func(n int) string {
			return `{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","spec":{"namespace":"default",` + list(n, `"x%d":{}`) + `}}`
		}),
		post("binding: annotations", pods+"/old/binding", func(n int) string {
			return `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"old","annotations":{` + list(n, `"k%d":"a"`) + `}},"target":{"kind":"Node","name":"n"}}`
		}),
		post("eviction: annotations", pods+"/old/eviction", func(n int) string {
			return `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"old","annotations":{` + list(n, `"k%d":"a"`) + `}},"deleteOptions":{"dryRun":["All"]}}`
		}),
		{"update: ephemeral containers", "PUT", pods + "/old/ephemeralcontainers?dryRun=All", jsonType, func(n int) string {
			return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"old"},"spec":{"ephemeralContainers":[` + list(n, `{}`) + `]}}`
		}},
		{"status: conditions", "PUT", pods + "/old/status?dryRun=All", jsonType, func(n int) string {
			return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"old"},"status":{"conditions":[` + list(n, `{}`) + `]}}`
		}},
		{"selector: labels", "GET", pods, "", func(n int) string { return "labelSelector=" + list(n, "a%d=b") }},
		{"selector: values", "GET", pods, "", func(n int) string { return "labelSelector=a+in+(" + list(n, "v%d") + ")" }},
		{"selector: fields", "GET", pods, "", func(n int) string { return "fieldSelector=" + list(n, "metadata.name!=a%d") }},
		post("definition: fields", definitions, func(n int) string { return definition(list(n, `"f%d":{"type":"string"}`)) }),
		post("definition: fields without a type", definitions, func(n int) string { return definition(list(n, `"f%d":{}`)) }),
		post("definition: bad names", definitions, func(n int) string {
			return strings.Replace(definition(""), `"kind":"Other"`, `"kind":"Other","shortNames":[`+list(n, `"-%d"`)+`]`, 1)
		}),
		post("definition: depth", definitions, func(n int) string {
			n = min(n, 600)
			return definition(`"a":` + strings.Repeat(`{"type":"object","properties":{"a":`, n) + `{"type":"string"}` + strings.Repeat("}}", n))
		}),
		post("definition: unknown fields in depth", definitions, func(n int) string {
			n = min(n, 600)
			return definition(`"a":` + strings.Repeat(`{"type":"object","foo":1,"properties":{"a":`, n) + `{"type":"string"}` + strings.Repeat("}}", n))
		}),
		post("definition: rules", definitions, func(n int) string {
			return definition(list(min(n, 500), `"f%d":{"type":"string","x-kubernetes-validations":[{"rule":"self.size() < 5"}]}`))
		}),
		post("definition: chained macros", definitions, func(n int) string {
			return definition(`"a":{"type":"string","x-kubernetes-validations":[{"rule":"` + chained(n) + `"}]}`)
		}),
		post("claim: chained macros", claims, func(n int) string { return claim(selector(chained(n))) }),
		post("claim: macros beside each other", claims, func(n int) string {
			return claim(selector(strings.Repeat("optional.of(1).optMap(x,x).hasValue() && ", min(n, 240)) + "true"))
		}),
		post("claim: empty lists", claims, func(n int) string { return claim(selector(strings.Repeat("[]==[]||", n) + "true")) }),
		post("claim: empty lists in each selector", claims, func(n int) string {
			return claim(list(min(n, 32), selector(strings.Repeat("[]==[]||", 50)+"true")))
		}),
		post("claim: comparisons", claims, func(n int) string {
			return claim(selector(strings.Repeat("device.driver=='a'||", n) + "true"))
		}),
		post("claim: types that double", claims, func(n int) string {
			return claim(selector("[1]" + strings.Repeat(".map(x,{x:x})", min(n, 200)) + "==[1]"))
		}),
		post("claim: nested macros", claims, func(n int) string {
			depth := min(n, 200)
			return claim(selector(strings.Repeat("[1].map(x,", depth) + "1" + strings.Repeat(")", depth) + "==[1]"))
		}),
		post("claim: errors at the end of a long line", claims, func(n int) string {
			return claim(selector("'" + strings.Repeat("a", n) + "'==''" + strings.Repeat("||u", min(n, 110))))
		}),
		post("claim: errors in each selector", claims, func(n int) string {
			return claim(list(min(n, 32), selector("'"+strings.Repeat("a", 500)+"'==''"+strings.Repeat("||u", 20))))
		}),
		post("claim: repeats in a pattern", claims, func(n int) string {
			return claim(selector("'a'.matches('" + strings.Repeat(".{1000}", n) + "')"))
		}),
		post("claim: selectors", claims, func(n int) string {
			return claim(list(min(n, 32), selector(`device.driver == 'a%d'`)))
		}),
		post("policy: chained macros", policies, func(n int) string { return policy(`{"expression":"` + chained(n) + `"}`) }),
		post("policy: comparisons", policies, func(n int) string {
			return policy(list(n, `{"expression":"`+strings.Repeat("object.a=='a'||", 50)+`true"}`))
		}),
		post("owners", configMaps, func(n int) string {
			return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"c","ownerReferences":[` + list(n, `{"apiVersion":"v1","kind":"Node","name":"n","uid":"u%d"}`) + `]}}`
		}),
		post("storage class: equal terms", storageClasses, func(n int) string { return storageClass(list(n, `{}`)) }),
		post("storage class: values of a term", storageClasses, func(n int) string {
			return storageClass(`{"matchLabelExpressions":[{"key":"zone","values":[` + list(n, `"v%d"`) + `]}]}`)
		}),
		post("definition: enum", definitions, func(n int) string { return definition(`"a":{"type":"string","enum":[` + list(n, `"v%d"`) + `]}`) }),
		post("definition: required", definitions, func(n int) string { return definition(`"a":{"type":"object","required":[` + list(n, `"v%d"`) + `]}`) }),
	}
}

func definition(properties string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"others.example.com"},
	"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"others","kind":"Other"},"versions":[{"name":"v1","served":true,"storage":true,
	"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{` + properties + `}}}}}}]}}`
}

// chained is an expression of 2^n nodes once its macros are expanded. Eight calls exceed the bound
// of allocations; more would not end.
func chained(n int) string {
	return "optional.of(true)" + strings.Repeat(".optMap(x,x)", min(n, 8)) + ".hasValue()"
}

func selector(expression string) string { return `{"cel":{"expression":"` + expression + `"}}` }

func claim(selectors string) string {
	return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"generateName":"c"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"d","allocationMode":"All","selectors":[` + selectors + `]}}]}}}`
}

func policy(validations string) string {
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"generateName":"p"},"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]},"validations":[` + validations + `]}}`
}

func storageClass(terms string) string {
	return `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"generateName":"s"},"provisioner":"a.example.com","allowedTopologies":[` + terms + `]}`
}

// TestGrowing doubles the bodies of requests of every other form.
func TestGrowing(t *testing.T) {
	target := start(t)
	create := func(path, body string) {
		t.Helper()
		if spent := target.send(t, "POST", path, jsonType, []byte(body)); spent.code != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, spent.code, spent.text)
		}
	}
	create(definitions, thingDefinition)
	for target.send(t, "GET", things, "", nil).code != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("the kind is not served")
		}
	}
	create(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"old"},"spec":{"any":[]}}`)
	create(things+"?fieldManager=other", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"taken"},"spec":{"any":{`+list(2000, `"k%d":1`)+`}}}`)
	create(pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"old"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)

	for _, g := range growings() {
		t.Run(g.name, func(t *testing.T) {
			spend := func(n int) (spending, int) {
				path, body := g.path, g.body(n)
				if g.method == "GET" {
					query := strings.ReplaceAll(body, "!", "%21")
					path += "?" + query
					body = ""
					return target.send(t, g.method, path, "", nil), len(query)
				}
				if strings.HasPrefix(g.contentType, jsonType) && !json.Valid([]byte(body)) {
					t.Fatalf("the body is no JSON: %.300s", body)
				}
				return target.send(t, g.method, path, g.contentType, []byte(body)), len(body)
			}
			most := 24 << 10 // bytes of the larger body
			if *all {
				most = 192 << 10
			}
			n := max(1, most/max(1, (len(g.body(200))-len(g.body(100)))/100))
			// What is compiled on first use. A patch must get beyond the check of its parameters.
			if answer, _ := spend(16); strings.Contains(answer.text, "PatchOptions") {
				t.Fatalf("%d: %s", answer.code, answer.text)
			}
			first, firstSize := spend(n / 8)
			second, size := spend(n)
			added := max(1, size-firstSize)
			perByte := (float64(second.allocated) - float64(first.allocated)) / float64(added)
			grown := float64(second.allocated) / float64(size) / (float64(first.allocated) / float64(firstSize))
			objects := bytes.Count([]byte(g.body(n)), []byte("{"))
			line := fmt.Sprintf("%d: %d bytes, %.0f allocated and %v for a byte more, growing %.1f; answer of %d bytes: %.200s",
				second.code, size, perByte, second.took/time.Duration(max(1, size)), grown, second.answer, second.text)
			switch {
			case second.allocated > uint64(bytesPerByte*size+bytesPerObject*objects):
				t.Errorf("too many bytes: %s", line)
			case size > firstSize && grown > growth && perByte > cheap: // some bodies have a bounded size, and equal ones differ by chance
				t.Errorf("not linear: %s", line)
			case *all && second.took > target.most(size, objects)+10*time.Millisecond:
				t.Errorf("too long: %s", line)
			case second.long(size):
				t.Errorf("long answer: %s", line)
			default:
				t.Log(line)
			}
		})
	}
}
