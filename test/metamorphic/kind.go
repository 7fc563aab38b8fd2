package metamorphic

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// A kind is one of the kinds that are written, by its resource.
type kind string

const (
	configMaps kind = "configmaps" // updates need no resourceVersion
	secrets    kind = "secrets"    // their values are base64
	widgets    kind = "widgets"    // custom: with generation and status, and updates need a resourceVersion
)

var kinds = []kind{configMaps, secrets, widgets}

var namespaces = []string{"one", "two"}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.test.kapok.dev"},
"spec":{"group":"test.kapok.dev","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"values":{"type":"object","additionalProperties":{"type":"string"}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}]}}`

// path returns the path of the kind in a namespace, or in all of them.
func (k kind) path(namespace string) string {
	path := "/api/v1"
	if k == widgets {
		path = "/apis/test.kapok.dev/v1"
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + string(k)
}

func (k kind) custom() bool { return k == widgets }

// body returns the JSON of an object, or of a merge patch, in which nil removes a value.
func (k kind) body(metadata map[string]any, values map[string]*string) map[string]any {
	data := map[string]any{}
	for name, value := range values {
		switch {
		case value == nil:
			data[name] = nil
		case k == secrets:
			data[name] = base64.StdEncoding.EncodeToString([]byte(*value))
		default:
			data[name] = *value
		}
	}
	body := map[string]any{"metadata": metadata}
	switch k {
	case widgets:
		body["apiVersion"], body["kind"], body["spec"] = "test.kapok.dev/v1", "Widget", map[string]any{"values": data}
	case secrets:
		body["apiVersion"], body["kind"], body["data"] = "v1", "Secret", data
	default:
		body["apiVersion"], body["kind"], body["data"] = "v1", "ConfigMap", data
	}
	return body
}

// A key identifies an object.
type key struct {
	kind            kind
	namespace, name string
}

func (k key) String() string { return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name) }

func (k key) path() string { return k.kind.path(k.namespace) + "/" + k.name }

func (k key) compare(other key) int {
	return strings.Compare(string(k.kind)+"\x00"+k.namespace+"\x00"+k.name, string(other.kind)+"\x00"+other.namespace+"\x00"+other.name)
}

// An object is the state of a key at a version. It is immutable.
type object struct {
	created    int // the version of its creation, which stands for its uid
	version    int
	generation int // of custom objects
	app        string
	finalizers []string
	deleting   bool
	values     map[string]string
	phase      string // the status of custom objects
}

func (o *object) clone() *object {
	c := *o
	c.finalizers, c.values = slices.Clone(o.finalizers), maps.Clone(o.values)
	return &c
}

// sameSpec reports whether two objects are equal in what affects the generation.
func (o *object) sameSpec(other *object) bool { return maps.Equal(o.values, other.values) }

// same reports whether a write of one object over the other changes nothing.
func (o *object) same(other *object) bool {
	return o.sameSpec(other) && o.app == other.app && slices.Equal(o.finalizers, other.finalizers) && o.phase == other.phase &&
		o.deleting == other.deleting
}

// text formats an object for comparison. The version is a text, as it may be unknown.
func (o *object) text(k key, version string) string {
	text := fmt.Sprintf("%s #%d@%s", k, o.created, version)
	if o.generation > 0 {
		text += fmt.Sprintf(" generation=%d", o.generation)
	}
	if o.app != "" {
		text += " app=" + o.app
	}
	if len(o.finalizers) > 0 {
		text += fmt.Sprint(" ", o.finalizers)
	}
	if o.deleting {
		text += " deleting"
	}
	if o.phase != "" {
		text += " phase=" + o.phase
	}
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		value := o.values[name]
		if len(value) > 20 {
			sum := fnv.New32()
			sum.Write([]byte(value))
			value = fmt.Sprintf("%d bytes:%x", len(value), sum.Sum32())
		}
		text += fmt.Sprintf(" %s=%s", name, value)
	}
	return text
}

// A selector is a label selector that some objects match; empty matches all.
type selector string

var selectors = []selector{"", "app=a", "app!=b", "app", "app in (a,c)"}

func (s selector) matches(o *object) bool {
	switch s {
	case "app=a":
		return o.app == "a"
	case "app!=b":
		return o.app != "b"
	case "app":
		return o.app != ""
	case "app in (a,c)":
		return o.app == "a" || o.app == "c"
	}
	return true
}

func decoded(data map[string]string) map[string]string {
	values := map[string]string{}
	for name, value := range data {
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			text = []byte(err.Error())
		}
		values[name] = string(text)
	}
	return values
}
