package fairness

import (
	"bytes"
	_ "embed"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// defaultLines contains the default objects of Kubernetes, one per line, as a Store encodes them:
// first those of servers with fairness, and then the FlowSchemas of servers without, which have no
// status. Servers replace placeUID and placeTime. The tests of internal/housekeeping/flowschemas
// write the file.
//
//go:embed defaults.jsonl
var defaultLines []byte

// specKey precedes the specification of an encoded object, and statusKey follows it. With their
// quotes, they occur nowhere else.
const (
	specKey   = `,"spec":`
	statusKey = `,"status":{`
)

const (
	placeUID  = "00000000-0000-0000-0000-000000000000"
	placeTime = "2000-01-01T00:00:00Z"
)

// A Default is a FlowSchema or PriorityLevelConfiguration that every server has by default. It is
// immutable.
type Default struct {
	Key object.Key
	// Mandatory objects must exist with this specification.
	Mandatory bool
	// Level is the specification of a PriorityLevelConfiguration, and nil for a FlowSchema.
	Level *flowcontrolv1.PriorityLevelConfigurationSpec

	matcher *matcher // of a FlowSchema
	// raw is the encoded object, and plain the object without fairness.
	raw, plain []byte
	spec       []byte // the part of raw from specKey to the end of statusKey
}

// Defaults returns the default objects, each before those that refer to it. The caller must not
// change the slice.
func Defaults() []*Default { return defaults() }

var defaults = sync.OnceValue(func() []*Default {
	var all []*Default
	levels := func(mandatory bool, objects []*flowcontrolv1.PriorityLevelConfiguration) {
		for _, o := range objects {
			all = append(all, &Default{Key: object.Key{Resource: PriorityLevels, Name: o.Name}, Mandatory: mandatory, Level: &o.Spec})
		}
	}
	schemas := func(mandatory bool, objects []*flowcontrolv1.FlowSchema) {
		for _, o := range objects {
			all = append(all, &Default{Key: object.Key{Resource: FlowSchemas, Name: o.Name}, Mandatory: mandatory, matcher: newMatcher(o.Name, &o.Spec)})
		}
	}
	levels(true, bootstrap.MandatoryPriorityLevelConfigurations)
	levels(false, bootstrap.SuggestedPriorityLevelConfigurations)
	schemas(true, bootstrap.MandatoryFlowSchemas)
	schemas(false, bootstrap.SuggestedFlowSchemas)

	lines := bytes.Split(bytes.TrimSpace(defaultLines), []byte("\n"))
	if len(lines) < len(all) {
		return all // defaults.jsonl is being written
	}
	plain := lines[len(all):]
	for i, d := range all {
		d.raw, d.plain = lines[i], lines[i]
		if d.matcher != nil && len(plain) > 0 {
			d.plain, plain = plain[0], plain[1:]
		}
		if from, to := bytes.Index(d.raw, []byte(specKey)), bytes.LastIndex(d.raw, []byte(statusKey)); from >= 0 && to > from {
			d.spec = d.raw[from : to+len(statusKey)]
		}
	}
	return all
})

// defaultOf returns the default of an object if the object has its specification; else nil.
func defaultOf(o *object.Object) *Default {
	i := slices.IndexFunc(defaults(), func(d *Default) bool { return d.Key == o.Key })
	if i < 0 || !defaults()[i].SpecOf(o) {
		return nil
	}
	return defaults()[i]
}

// SpecOf reports whether an object has the specification of the default.
func (d *Default) SpecOf(o *object.Object) bool {
	return len(d.spec) > 0 && bytes.Contains(o.Raw, d.spec)
}

// Spec returns the JSON of the specification.
func (d *Default) Spec() []byte { return d.spec[len(specKey) : len(d.spec)-len(statusKey)] }

// Encode returns the JSON of a new object, in the storage version. plain is for servers without
// fairness, where a FlowSchema has no status.
func (d *Default) Encode(uid string, created time.Time, plain bool) []byte {
	raw := d.raw
	if plain {
		raw = d.plain
	}
	raw = bytes.ReplaceAll(raw, []byte(placeUID), []byte(uid))
	return bytes.ReplaceAll(raw, []byte(placeTime), []byte(created.UTC().Format(time.RFC3339)))
}
