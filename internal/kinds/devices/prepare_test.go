package devices_test

import (
	"reflect"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/resource"
)

// TestDevicesArePrepared checks the changes before validation: fields of disabled features are
// dropped, derived ones set.
func TestDevicesArePrepared(t *testing.T) {
	for _, c := range []struct{ name, plural, sub, old, obj, want string }{
		{"derived attributes", "resourceclaims", "", ``,
			`{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, derivedAttributes: [{name: a.b/c, expression: "1"}]}}]}}}`,
			`{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c}}]}}}`},
		{"lists of attributes", "resourceslices", "", ``,
			`{spec: {driver: d, pool: {name: p}, skipNodeOperations: ["*"], devices: [{name: a, attributes: {b: {ints: [1]}, c: {int: 1}}}]}}`,
			`{spec: {driver: d, pool: {name: p}, devices: [{name: a, attributes: {b: {}, c: {int: 1}}}]}}`},
		{"devices given back", "resourceclaims", "status",
			`{status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: x}, {request: a, driver: d, pool: p, device: z}]}}}}`,
			`{status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: z}]}}, devices: [{driver: d, pool: p, device: x}, {driver: d, pool: p, device: z}]}}`,
			`{status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: z}]}}, devices: [{driver: d, pool: p, device: z}]}}`},
		{"all devices given back", "resourceclaims", "status",
			`{status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: x}]}}}}`,
			`{status: {devices: [{driver: d, pool: p, device: x}]}}`,
			`{status: {}}`},
	} {
		d := kindtest.Definition(t, c.plural)
		obj, want := kindtest.Decode(t, c.plural, c.obj), kindtest.Decode(t, c.plural, c.want)
		switch {
		case c.sub != "":
			d.Storage.Subresource(c.sub).Prepare(obj, kindtest.Decode(t, c.plural, c.old))
		default:
			d.Strategy.PrepareCreate(obj)
			for _, key := range []string{"status", "metadata"} {
				kind.Keep(obj, want, key)
			}
		}
		if !reflect.DeepEqual(obj, want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, obj, want)
		}
	}
}

// TestTaintKeepsItsTime checks that only a new effect changes the time of a taint.
func TestTaintKeepsItsTime(t *testing.T) {
	d := kindtest.Definition(t, "devicetaintrules")
	taint := func(value, effect string) resource.Tree {
		return kindtest.Decode(t, "devicetaintrules", `{spec: {taint: {key: k, value: `+value+`, effect: `+effect+`, timeAdded: "2026-05-06T07:08:09Z"}}}`)
	}
	for _, c := range []struct {
		value, effect string
		moves         bool
	}{{"b", "NoSchedule", false}, {"a", "NoExecute", true}} {
		obj := taint(c.value, c.effect)
		d.Strategy.PrepareUpdate(obj, taint("a", "NoSchedule"))
		if moved := kind.Text(obj, "spec", "taint", "timeAdded") != "2026-05-06T07:08:09Z"; moved != c.moves {
			t.Errorf("%s %s: timeAdded is %s", c.value, c.effect, kind.Text(obj, "spec", "taint", "timeAdded"))
		}
	}
}
