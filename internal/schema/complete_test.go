package schema

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestCompleteKeepsNulls checks that Complete keeps the nulls that Normalise removes, and that
// validation rejects them.
func TestCompleteKeepsNulls(t *testing.T) {
	const schema = `{type: object, properties: {spec: {type: object, required: [must], properties: {
		must: {type: object}, object: {type: object, properties: {a: {type: object}}}, nullable: {type: object, nullable: true},
		fallback: {type: object, default: {}}, map: {type: object, additionalProperties: {type: object}}, text: {type: string}, free: {x-kubernetes-preserve-unknown-fields: true}}}}}`
	p := mustCompile(t, parseSchema(t, schema))
	for _, c := range []struct{ obj, want, refused string }{
		{`{"must": null}`, `{"must": null, "fallback": {}}`, `spec.must: Invalid value: "null": spec.must in body must be of type object: "null"`},
		{`{"must": {}, "object": null}`, `{"must": {}, "object": null, "fallback": {}}`, `spec.object: Invalid value: "null": spec.object in body must be of type object: "null"`},
		{`{"must": {}, "object": {"a": null}}`, `{"must": {}, "object": {"a": null}, "fallback": {}}`, `spec.object.a: Invalid value: "null": spec.object.a in body must be of type object: "null"`},
		{`{"must": {}, "map": {"x": null}}`, `{"must": {}, "map": {"x": null}, "fallback": {}}`, `spec.map.x: Invalid value: "null": spec.map.x in body must be of type object: "null"`},
		{`{"must": {}, "text": null}`, `{"must": {}, "text": null, "fallback": {}}`, `spec.text: Invalid value: "null": spec.text in body must be of type string: "null"`},
		{`{"must": {}, "nullable": null}`, `{"must": {}, "nullable": null, "fallback": {}}`, ""},
		{`{"must": {}, "fallback": null}`, `{"must": {}, "fallback": {}}`, ""},
		{`{"must": {}, "free": null}`, `{"must": {}, "fallback": {}}`, ""},
		{`{"must": {}, "unknown": null}`, `{"must": {}, "fallback": {}}`, ""},
	} {
		obj := parse(t, `{"spec": `+c.obj+`}`).(map[string]any)
		if err := p.Complete(obj); err != nil {
			t.Fatal(err)
		}
		if want := parse(t, `{"spec": `+c.want+`}`); !object.Equal(obj, want) {
			t.Errorf("%s\n got %s\nwant %s", c.obj, toJSON(obj), toJSON(want))
		}
		refused := ""
		if err := p.Validate(context.Background(), obj).ToAggregate(); err != nil {
			refused = err.Error()
		}
		if refused != c.refused {
			t.Errorf("errors of %s\n got %s\nwant %s", c.obj, refused, c.refused)
		}
	}
}

// TestCompleteAsKubernetes compares Complete with the libraries, on decoded objects into which an
// apply has put nulls. kube-apiserver sets defaults and validates; it prunes the remaining nulls
// when it reads the object from the store.
func TestCompleteAsKubernetes(t *testing.T) {
	first := seeds.Of(t)
	agreed := map[bool]int{} // by whether the object is accepted
	for seed := first; seed < first+200; seed++ {
		g := newGenerator(seed)
		s := g.root()
		p, err := Compile(s, false)
		j, failed := newJudge(t, s, false)
		if err != nil || failed != nil {
			continue
		}
		for range 8 {
			obj := g.resource(s)
			if p.Normalise(obj, nil) != nil {
				continue
			}
			g.nulls(obj["spec"])
			want := clone(obj).(map[string]any)
			_, refused := j.coerce(want, false, false) // as for an object that is read from the store
			defaulting.Default(want, j.structural)
			text, judged := toJSON(obj), j.validate(want)
			defaulting.PruneNonNullableNullsWithoutDefaults(want, j.structural) // likewise
			err := p.Complete(obj)
			if err != nil && refused != nil {
				continue
			}
			got := p.Validate(context.Background(), obj)
			if (len(got) == 0) != (len(judged) == 0) && !typeErrors(judged) {
				// Complete removes nulls without a type, which kube-apiserver removes only after the
				// validation. A rule can count them (see docs/differences.md).
				judged = j.validate(want)
			}
			// Which of several errors is found first may differ.
			accepts, accepted := err == nil && len(got) == 0, refused == nil && len(judged) == 0
			if accepts != accepted || accepts && !object.Equal(obj, want) {
				t.Fatalf("seed %d: %s\nschema %s\n got %s, %v, %v\nwant %s, %v, %v", seed, text, toJSON(s), toJSON(obj), err, got, toJSON(want), refused, judged)
			}
			agreed[accepts]++
		}
	}
	if agreed[true] == 0 || agreed[false] == 0 {
		t.Errorf("%d objects are accepted, %d rejected: too few to compare", agreed[true], agreed[false])
	}
}

// typeErrors reports whether some of the errors are about the type of a value, such as null.
func typeErrors(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Type == field.ErrorTypeTypeInvalid })
}

// nulls replaces some of the values in v by null.
func (g *generator) nulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if g.chance(20) {
				v[k] = nil
			} else {
				g.nulls(v[k])
			}
		}
	case []any:
		for i := range v {
			if g.chance(20) {
				v[i] = nil
			} else {
				g.nulls(v[i])
			}
		}
	}
}
