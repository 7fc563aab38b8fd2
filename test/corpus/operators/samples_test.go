package operators

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestServer creates all definitions of the corpus in one server, then all objects of their kinds,
// and then reads the documents. Further variants of definitions use further servers.
func TestServer(t *testing.T) {
	c := load(t)
	s := start(t)
	all := 0
	for _, variants := range c.variants {
		all += len(variants)
	}
	t.Logf("%d modules: %d definitions in %d variants, %d objects", c.modules, len(c.names), all, len(c.objects))
	var established []*definition
	t.Run("definitions", func(t *testing.T) { established = s.testDefinitions(t, c.round(0)) })
	if t.Failed() {
		return
	}
	t.Run("objects", func(t *testing.T) { s.testObjects(t, versions(established), c.objects) })
	t.Run("documents", func(t *testing.T) { s.testDocuments(t, versions(established)) })
	t.Run("explain", func(t *testing.T) { s.testExplain(t) })
	t.Run("variants", func(t *testing.T) {
		for i := 1; i < c.rounds(); i++ {
			start(t).testDefinitions(t, c.round(i))
		}
	})
}

// testDefinitions creates definitions and returns the accepted ones: those that the judge accepts
// must be established, and the others rejected with its messages.
func (s *server) testDefinitions(t *testing.T, definitions []*definition) (accepted []*definition) {
	refused := s.establish(t, definitions)
	for _, d := range definitions {
		err, isRefused := refused[d]
		if !isRefused {
			accepted = append(accepted, d)
		}
		if !isRefused && !*long {
			continue // the judge takes longer than the server
		}
		if got, want := verdict(err), verdict(judgeDefinition(d)); got != want {
			t.Errorf("%v:\n got %s\nwant %s", d, got, want)
		}
	}
	t.Logf("%d definitions, %d versions, %d established, %d rejected as in Kubernetes",
		len(definitions), len(versions(definitions)), len(accepted), len(refused))
	return accepted
}

// testObjects creates the objects of the versions.
func (s *server) testObjects(t *testing.T, versions []*version, objects []*manifest) {
	served := map[schema.GroupVersionKind]*version{}
	for _, v := range versions {
		if v.Served {
			served[v.gvk()] = v
		}
	}
	byDefinition := map[*definition][]*manifest{}
	for _, m := range objects {
		if v := served[m.gvk()]; v != nil {
			byDefinition[v.definition] = append(byDefinition[v.definition], m)
		}
	}
	var (
		mu          sync.Mutex
		total       counts
		unconverted atomic.Int64
	)
	used := slices.SortedFunc(maps.Keys(byDefinition), func(a, b *definition) int {
		return cmp.Or(len(byDefinition[b])-len(byDefinition[a]), strings.Compare(a.crd.Name, b.crd.Name))
	})
	parallel(len(used), func(i int) {
		d := used[i]
		judges, err := newJudges(d)
		if err != nil {
			t.Error(err)
			return
		}
		names := map[any]bool{}
		var later []func() error
		for _, m := range byDefinition[d] {
			v := served[m.gvk()]
			if c := d.crd.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter && !v.Storage {
				unconverted.Add(1) // the operator's webhook does not run
				continue
			}
			o, err := s.compareObject(t.Context(), judges[v.Name], m)
			if err != nil {
				t.Errorf("%s, %v:\n%v", m.from, v, err)
				continue
			}
			if name := o.name; o.accepted && !names[name] {
				names[name] = true
				later = append(later, func() error { return s.createObject(t.Context(), v, m, o) })
			}
			mu.Lock()
			total.add(o)
			mu.Unlock()
		}
		for _, create := range later {
			if err := create(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Logf("%d objects of %d kinds: %d accepted, %d with warnings, %d rejected, %d of them unreadable; %d skipped because they need a webhook",
		total.accepted+total.refused, len(used), total.accepted, total.warned, total.refused, total.unreadable, unconverted.Load())
}

// A result is the outcome of a create.
type result struct {
	name                                  any
	accepted, warned, refused, unreadable bool
	object                                tree
}

// counts adds up results.
type counts struct{ accepted, warned, refused, unreadable int }

func (c *counts) add(r result) {
	for at, is := range map[*int]bool{&c.accepted: r.accepted, &c.warned: r.warned, &c.refused: r.refused, &c.unreadable: r.unreadable} {
		if is {
			*at++
		}
	}
}

// sample returns the object of a manifest as it is sent: in an existing namespace, and without
// fields that clients must not send.
func sample(v *version, m *manifest) tree {
	obj := clone(m.object).(tree)
	metadata, isMap := obj["metadata"].(tree)
	if !isMap {
		return obj
	}
	delete(metadata, "resourceVersion")
	if v.crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		metadata["namespace"] = "default"
	}
	if generate, ok := metadata["generateName"].(string); ok && metadata["name"] == nil {
		metadata["name"] = generate + "x"
	}
	return obj
}

// compareObject creates an object as a dry run, and compares the response with that of the judge.
func (s *server) compareObject(ctx context.Context, j *judge, m *manifest) (r result, err error) {
	obj := sample(j.version, m)
	want := clone(obj).(tree)
	warnings, wantErr := j.create(want)
	a := s.do(ctx, "POST", j.version.path()+query("fieldValidation", "Warn", "dryRun", "All"), obj)
	if apierrors.IsBadRequest(a.err) && wantErr != nil {
		// The decoder of the request adds words around the judge's.
		return result{refused: true, unreadable: true}, nil
	}
	for range 20 { // of several errors in metadata the judge returns a random one
		if wantErr == nil || a.err == nil || verdict(a.err) == verdict(wantErr) {
			break
		}
		_, wantErr = j.create(clone(obj).(tree))
	}
	if got, want := verdict(a.err), verdict(wantErr); got != want {
		return r, fmt.Errorf(" got %s\nwant %s", got, want)
	}
	if a.err != nil {
		return result{refused: true}, nil
	}
	slices.Sort(a.warnings)
	if !slices.Equal(a.warnings, warnings) {
		return r, fmt.Errorf("warnings:\n got %q\nwant %q", a.warnings, warnings)
	}
	forgetSystem(a.object)
	forgetSystem(want)
	if !reflect.DeepEqual(a.object, want) {
		return r, fmt.Errorf("object:\n got %s\nwant %s", toJSON(a.object), toJSON(want))
	}
	return result{name: a.object["metadata"].(tree)["name"], accepted: true, warned: len(warnings) > 0, object: a.object}, nil
}

// createObject creates an object and reads it back.
func (s *server) createObject(ctx context.Context, v *version, m *manifest, r result) error {
	created := s.do(ctx, "POST", v.path(), sample(v, m))
	if created.err != nil {
		return fmt.Errorf("create %s: %w", m.from, created.err)
	}
	read := s.do(ctx, "GET", fmt.Sprintf("%s/%s", v.path(), r.name), nil)
	if read.err != nil {
		return fmt.Errorf("read %s: %w", m.from, read.err)
	}
	if !reflect.DeepEqual(read.object, created.object) {
		return fmt.Errorf("%s was created and read:\n got %s\nwant %s", m.from, toJSON(read.object), toJSON(created.object))
	}
	forgetSystem(read.object)
	if !reflect.DeepEqual(read.object, r.object) {
		return fmt.Errorf("%s read:\n got %s\nwant %s", m.from, toJSON(read.object), toJSON(r.object))
	}
	return nil
}

// forgetSystem removes the fields that differ between creations.
func forgetSystem(obj tree) {
	metadata, _ := obj["metadata"].(tree)
	for _, name := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields"} {
		delete(metadata, name)
	}
}
