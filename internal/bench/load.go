package bench

import (
	"fmt"
	"strings"
	"time"
)

// Scale is a size of the load.
type Scale string

const (
	Small Scale = "small" // half a minute, to see that all works
	Full  Scale = "full"  // three minutes, to compare
)

// Scales are all sizes.
func Scales() []Scale { return []Scale{Small, Full} }

// Load is what a server has to do. Two reports can be compared if theirs is the same.
type Load struct {
	Scale            Scale   `json:"scale"`
	DurationSeconds  float64 `json:"durationSeconds"` // of each measure that does not count
	OwnConnections   bool    `json:"ownConnections"`  // one for each worker
	SchemaFields     int     `json:"schemaFields"`    // of the kind that is written and read
	ObjectBytes      int     `json:"objectBytes"`     // as it is sent
	Objects          int     `json:"objects"`
	Labelled         int     `json:"labelled"` // of these, with the label that is asked for
	Connections      int     `json:"connections"`
	Watchers         int     `json:"watchers"`
	ChangesPerSecond int     `json:"changesPerSecond"`
	Definitions      int     `json:"definitions"`
	DefinitionFields int     `json:"definitionFields"`

	duration, quiet time.Duration // quiet is how long a server is left alone before its memory is read
}

// shades is how many labels the objects share.
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

// kind is the kind that is written and read.
type kind struct{ group, before, after string }

// newKind is the kind of the run with an id, which is part of its group: two runs
// do not meet.
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

// path is where the objects of a namespace are.
func (k kind) path(namespace string) string {
	return "/apis/" + k.group + "/v1/namespaces/" + namespace + "/widgets"
}

// object is the body of an object. Every one of shades objects has the same label.
func (k kind) object(name string, i, replicas int) string {
	return k.before + name + fmt.Sprintf(`","labels":{"app":"bench","shade":"blue-%d"}},"spec":{"replicas":%d`, i%shades, replicas) + k.after
}

// definition defines it, with 30 fields.
func (k kind) definition(id string) string {
	return definition(id, k.group, "widget", 20, `"replicas":{"type":"integer","minimum":0},"paused":{"type":"boolean","default":false},
		"parts":{"type":"array","items":{"type":"object","required":["name"],"properties":{
			"name":{"type":"string","maxLength":63},"image":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},
			"env":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
			"port":{"type":"integer","minimum":1,"maximum":65535}}}},`)
}

// definition is a CustomResourceDefinition with n fields of strings, and more.
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
