package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/crd"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/webhook"
)

// TestDeleteDefinition checks that the deletion of a CustomResourceDefinition removes its objects
// and their dependents, however late the reaper processes it, and that the deletion of a namespace
// removes custom resources.
func TestDeleteDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.store.Registry().Put(crd.Definition(true))
		kinds, err := crd.Start(context.Background(), s.store, nil, webhook.Options{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer kinds.Close()
		s.mustCreate("CustomResourceDefinition", "", "widgets.example.org", func(obj resource.Tree) {
			obj["spec"] = resource.Tree{
				"group": "example.org", "scope": "Namespaced",
				"names": resource.Tree{"plural": "widgets", "kind": "Widget"},
				"versions": []any{resource.Tree{
					"name": "v1", "served": true, "storage": true,
					"schema": resource.Tree{"openAPIV3Schema": resource.Tree{"type": "object"}},
				}},
			}
		})
		synctest.Wait()
		configMaps, widgets := s.definition("ConfigMap"), s.definition("Widget")
		const each = 50
		for n := range each {
			owner := s.mustCreate("Widget", []string{"n", "m"}[n%2], fmt.Sprint("w", n), nil)
			s.mustCreate("ConfigMap", owner.Key.Namespace, fmt.Sprint("c", n), func(obj resource.Tree) {
				obj["metadata"].(resource.Tree)["ownerReferences"] = []any{resource.Tree{
					"apiVersion": "example.org/v1", "kind": "Widget", "name": owner.Key.Name, "uid": string(owner.Meta.UID),
				}}
			})
		}
		count := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			for _, d := range []*resource.Definition{widgets, configMaps} {
				if got := s.store.State().Count(d.GroupResource()); got != want {
					t.Errorf("%s: %d %s, want %d", when, got, d.Plural, want)
				}
			}
		}
		count("before", each)
		if err := s.delete(s.definition("Namespace"), "", "m", ""); err != nil {
			t.Fatal(err)
		}
		count("without the namespace", each/2)
		if err := s.delete(s.definition("CustomResourceDefinition"), "", "widgets.example.org", ""); err != nil {
			t.Fatal(err)
		}
		count("without the definition", 0)
		if got := s.namespace("m"); got != "gone" {
			t.Errorf("namespace: %s", got)
		}
	})
}
