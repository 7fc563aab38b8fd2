package linear

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// A Kind is one of the two kinds that are written, by its resource.
type Kind string

const (
	ConfigMaps Kind = "configmaps" // a built-in kind: updates need no resourceVersion
	Registers  Kind = "registers"  // a custom kind: updates need one
)

var kinds = [...]Kind{ConfigMaps, Registers}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"registers.test.kapok.dev"},
"spec":{"group":"test.kapok.dev","scope":"Namespaced","names":{"plural":"registers","kind":"Register"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"value":{"type":"string"}}}}}}}]}}`

// collection returns the path of the kind in a namespace.
func (k Kind) collection(namespace string) string {
	if k == Registers {
		return "/apis/test.kapok.dev/v1/namespaces/" + namespace + "/registers"
	}
	return "/api/v1/namespaces/" + namespace + "/configmaps"
}

// manifest returns an object to write, with its preconditions.
func (k Kind) manifest(o *Operation) string {
	metadata := fmt.Sprintf(`{"name":%q`, o.Key.Name)
	if o.UID != "" {
		metadata += fmt.Sprintf(`,"uid":%q`, o.UID)
	}
	if o.Revision != 0 {
		metadata += fmt.Sprintf(`,"resourceVersion":"%d"`, o.Revision)
	}
	if k == Registers {
		return fmt.Sprintf(`{"apiVersion":"test.kapok.dev/v1","kind":"Register","metadata":%s},"spec":{"value":%q}}`, metadata, o.Value)
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":%s},"data":{"value":%q}}`, metadata, o.Value)
}

// wire is a decoded object, list or Status.
type wire struct {
	Metadata struct {
		Name, UID, ResourceVersion, Continue string
	}
	Data, Spec struct{ Value string }
	Items      []wire

	Reason, Message string
	Code            int
	Details         struct{ Name, UID string }
}

// decode decodes a body. Invalid JSON becomes a Status without a reason.
func decode(body []byte) (w wire) {
	if json.Unmarshal(body, &w) != nil {
		return wire{}
	}
	return w
}

// revision returns the resourceVersion of an object or a list; 0 if it is not valid.
func (w *wire) revision() Revision {
	rv, err := strconv.ParseUint(w.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return Revision(rv)
}

func (w *wire) object() Object {
	return Object{UID: w.Metadata.UID, Revision: w.revision(), Value: w.Data.Value + w.Spec.Value}
}

func (w *wire) page() Page {
	p := Page{Revision: w.revision()}
	for i := range w.Items {
		p.Items = append(p.Items, Item{w.Items[i].Metadata.Name, w.Items[i].object()})
	}
	return p
}
