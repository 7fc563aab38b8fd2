package bench

import (
	"fmt"
	"strings"
	"time"
)

// A Scale is a size of the load.
type Scale string

const (
	Small Scale = "small" // half a minute, for a quick check
	Full  Scale = "full"  // three minutes, for comparisons
)

// Scales returns all sizes.
func Scales() []Scale { return []Scale{Small, Full} }

// A Load describes the work of a server. Reports with equal loads can be compared.
type Load struct {
	Scale            Scale   `json:"scale"`
	DurationSeconds  float64 `json:"durationSeconds"` // of each measure without a fixed number of operations
	OwnConnections   bool    `json:"ownConnections"`  // one for each worker
	SchemaFields     int     `json:"schemaFields"`    // of the kind that is written and read
	ObjectBytes      int     `json:"objectBytes"`     // size of a request's body
	Objects          int     `json:"objects"`
	Labelled         int     `json:"labelled"` // those with the label of the list by label
	Connections      int     `json:"connections"`
	Watchers         int     `json:"watchers"`
	ChangesPerSecond int     `json:"changesPerSecond"`
	Definitions      int     `json:"definitions"`
	DefinitionFields int     `json:"definitionFields"`

	duration, quiet time.Duration // quiet is the idle time before the server's memory is read
}

// shades is the number of values of the objects' label.
const shades = 50

func newLoad(o *Options) Load {
	l := Load{
		Scale: Full, Objects: 5000, Connections: 200, Watchers: 100, ChangesPerSecond: 200, Definitions: 200,
		duration: 10 * time.Second, quiet: 10 * time.Second,
	}
	if o.Scale == Small {
		l = Load{
			Scale: Small, Objects: 500, Connections: 20, Watchers: 20, ChangesPerSecond: 100, Definitions: 20,
			duration: time.Second, quiet: 2 * time.Second,
		}
	}
	if o.Duration != 0 {
		l.duration = o.Duration
	}
	l.DurationSeconds = l.duration.Seconds()
	l.OwnConnections = o.OwnConnections
	l.Labelled = l.Objects / shades
	l.SchemaFields, l.DefinitionFields = 30, 150
	l.ObjectBytes = len(newKind("xxxxx").object("w000000", 0, 1000))
	return l
}

// A kind is the kind that is written and read.
type kind struct{ group, before, after string }

// newKind returns the kind of the run with an id. The id is part of its group, so that concurrent
// runs do not collide.
func newKind(id string) kind {
	k := kind{group: id + ".bench.kapok.dev"}
	var parts, fields []string
	for p := range 3 {
		parts = append(parts, fmt.Sprintf(`{"name":"part-%d","image":"registry.example.com/team/part:%d","args":["--level=%s"],`+
			`"env":[{"name":"REGION","value":"europe-%d"},{"name":"MODE","value":"careful"}],"port":%d}`, p, p, strings.Repeat("x", 140), p, 8000+p))
	}
	for f := range 8 {
		fields = append(fields, fmt.Sprintf(`"field%d":"a value of some length, number %d"`, f, f))
	}
	k.before = fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"`, k.group)
	k.after = fmt.Sprintf(`,"parts":[%s],%s}}`, strings.Join(parts, ","), strings.Join(fields, ","))
	return k
}

// path returns the path of the objects in a namespace.
func (k kind) path(namespace string) string {
	return "/apis/" + k.group + "/v1/namespaces/" + namespace + "/widgets"
}

// object returns the body of an object. Objects whose indices differ by a multiple of shades have
// the same label.
func (k kind) object(name string, i, replicas int) string {
	return k.before + name + fmt.Sprintf(`","labels":{"app":"bench","shade":"blue-%d"}},"spec":{"replicas":%d`, i%shades, replicas) + k.after
}

// definition returns its CustomResourceDefinition, with 30 fields.
func (k kind) definition(id string) string {
	return definition(id, k.group, "widget", 20, `"replicas":{"type":"integer","minimum":0},"paused":{"type":"boolean","default":false},
		"parts":{"type":"array","items":{"type":"object","required":["name"],"properties":{
			"name":{"type":"string","maxLength":63},"image":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},
			"env":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
			"port":{"type":"integer","minimum":1,"maximum":65535}}}},`)
}

// definition returns a CustomResourceDefinition with n fields of strings, and the fields in more.
func definition(id, group, singular string, n int, more string) string {
	var fields []string
	for i := range n {
		fields = append(fields, fmt.Sprintf(`"field%d":{"type":"string","maxLength":%d,"description":"field %d, and what it is good for"}`, i, 100+i, i))
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.%[3]s","labels":{%[4]q:%[5]q}},
		"spec":{"group":"%[3]s","scope":"Namespaced","names":{"plural":"%[1]ss","singular":"%[1]s","kind":"%[2]s"},"versions":[{"name":"v1","served":true,"storage":true,
		"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%[6]s%[7]s}}}}}}]}}`,
		singular, strings.ToUpper(singular[:1])+singular[1:], group, mark, id, more, strings.Join(fields, ","))
}
