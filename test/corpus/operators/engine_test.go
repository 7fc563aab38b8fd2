package operators

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok/internal/schema"
	"github.com/kapok-dev/kapok/test/seeds"
)

// An engine has the implementations of both sides for the objects of one version.
type engine struct {
	*version
	ours   *schema.Program
	theirs *judge
}

func newEngine(v *version) (*engine, error) {
	theirs, err := newJudge(v, true)
	if err != nil {
		return nil, err
	}
	ours, err := schema.Compile(v.schema(), v.crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, err
	}
	return &engine{v, ours, theirs}, nil
}

// engines returns those of versions whose schema both sides accept; a schema that one side rejects,
// the other one must reject.
func engines(t testing.TB, versions []*version) []*engine {
	all := make([]*engine, len(versions))
	parallel(len(versions), func(i int) {
		v := versions[i]
		theirs, theirErr := newJudge(v, true)
		ours, err := schema.Compile(v.schema(), v.crd.Spec.PreserveUnknownFields)
		if (err == nil) != (theirErr == nil) {
			t.Errorf("%v:\n got %v\nwant %v", v, err, theirErr)
		}
		if err == nil && theirErr == nil {
			all[i] = &engine{v, ours, theirs}
		}
	})
	return slices.DeleteFunc(all, func(e *engine) bool { return e == nil })
}

// compare runs both sides on copies of an object that replaces old, and reports the first
// difference; valid is the result of both.
func (e *engine) compare(obj, old tree) (valid bool, err error) {
	ours, theirs := clone(obj).(tree), clone(obj).(tree)
	var unknown []string
	refused := e.ours.Normalise(ours, &unknown)
	want, wantErr := e.theirs.normalise(theirs, true)
	for range 200 { // of several errors the judge returns a random one
		if refused == nil || wantErr == nil || refused.Error() == wantErr.Error() {
			break
		}
		_, wantErr = e.theirs.normalise(clone(obj).(tree), true)
	}
	if fmt.Sprint(refused) != fmt.Sprint(wantErr) {
		return false, fmt.Errorf("error:\n got %v\nwant %v", refused, wantErr)
	}
	if refused != nil {
		return false, nil
	}
	if !slices.Equal(unknown, want) {
		return false, fmt.Errorf("unknown fields:\n got %q\nwant %q", unknown, want)
	}
	if !reflect.DeepEqual(ours, theirs) {
		return false, fmt.Errorf("normalised:\n got %s\nwant %s", toJSON(ours), toJSON(theirs))
	}
	silent := clone(obj).(tree)
	if err := e.ours.Normalise(silent, nil); err != nil || !reflect.DeepEqual(silent, ours) {
		return false, fmt.Errorf("normalised without a look at unknown fields: %v\n got %s\nwant %s", err, toJSON(silent), toJSON(ours))
	}
	errs, wantErrs := e.ours.Validate(context.Background(), ours), e.theirs.validate(theirs)
	errs = append(errs, e.ours.Evaluate(context.Background(), ours, nil, errs, nil)...)
	wantErrs = append(wantErrs, e.theirs.evaluate(theirs, nil, wantErrs)...)
	if got, want := spell(errs), spell(wantErrs); !slices.Equal(got, want) {
		return false, fmt.Errorf("errors:\n got %s\nwant %s", toJSON(got), toJSON(want))
	}
	if old != nil {
		errs, wantErrs := e.ours.ValidateUpdate(context.Background(), ours, old), e.theirs.validateUpdate(theirs, old)
		errs = append(errs, e.ours.Evaluate(context.Background(), ours, old, errs, nil)...)
		wantErrs = append(wantErrs, e.theirs.evaluate(theirs, old, wantErrs)...)
		if got, want := spell(errs), spell(wantErrs); !slices.Equal(got, want) {
			return false, fmt.Errorf("errors of an update of %s:\n got %s\nwant %s", toJSON(old), toJSON(got), toJSON(want))
		}
	}
	return len(errs) == 0, nil
}

// TestEngine compares the engine with the judge on objects generated from the schemas of all
// definitions, and on damaged ones.
func TestEngine(t *testing.T) {
	c := load(t)
	definitions, fine, damaged := c.round(0), 3, 5
	if *long {
		for i := 1; i < c.rounds(); i++ {
			definitions = append(definitions, c.round(i)...)
		}
		fine, damaged = 40, 10
	}
	all := engines(t, versions(definitions))
	seed := seeds.Of(t)
	var cases, valid, wrong atomic.Int64
	var report sync.Mutex
	parallel(len(all), func(i int) {
		e, g := all[i], newGenerator(seed, uint64(i))
		try := func(obj, old tree) {
			fits, err := e.compare(obj, old)
			cases.Add(1)
			if fits {
				valid.Add(1)
			}
			if err != nil && wrong.Add(1) <= 20 {
				report.Lock()
				t.Errorf("%v:\n%v\nof %s", e, err, toJSON(obj))
				report.Unlock()
			}
		}
		for range fine {
			obj := g.resource(e.version)
			try(obj, nil)
			old := clone(obj).(tree)
			if e.ours.Normalise(old, nil) != nil {
				old = nil
			}
			for range damaged {
				broken := clone(obj).(tree)
				for _, name := range []string{"apiVersion", "kind", "metadata"} {
					delete(broken, name)
				}
				for range 1 + g.IntN(3) {
					g.damage(broken)
				}
				broken["apiVersion"], broken["kind"], broken["metadata"] = obj["apiVersion"], obj["kind"], obj["metadata"]
				try(broken, old)
			}
		}
	})
	t.Logf("%d versions of %d definitions, %d objects, %d of them valid, %d differences", len(all), len(definitions), cases.Load(), valid.Load(), wrong.Load())
}
