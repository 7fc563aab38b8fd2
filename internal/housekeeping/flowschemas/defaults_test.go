package flowschemas

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

var rewrite = flag.Bool("rewrite", false, "write the file of default objects")

// newStore returns an empty store of the built-in kinds.
func newStore(t testing.TB) *resource.Store {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))
}

const (
	defaultsFile = "../../fairness/defaults.jsonl"
	placeUID     = "00000000-0000-0000-0000-000000000000"
)

// TestDefaults creates the default objects of Kubernetes as a client would. The file of the
// fairness package must contain what is stored then.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in a bubble the time is the one in the file
		m := &Maintainer{store: newStore(t)}
		var lines, plain bytes.Buffer
		line := func(to *bytes.Buffer, key object.Key) {
			o, _ := m.store.State().Get(key)
			to.Write(bytes.ReplaceAll(o.Raw, []byte(o.Meta.UID), []byte(placeUID)))
			to.WriteByte('\n')
		}
		create := func(key object.Key, obj any) {
			body, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			r := m.request(key, "", producer)
			r.Name = ""
			if _, err := m.store.Create(t.Context(), r, resource.Body{Data: body}); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
		for _, o := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations) {
			create(levelKey(o.Name), o)
			line(&lines, levelKey(o.Name))
		}
		for _, o := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
			key := schemaKey(o.Name)
			create(key, o)
			line(&plain, key)
			if err := m.apply(t.Context(), key, danglingCondition(o.Spec.PriorityLevelConfiguration.Name, true)); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			line(&lines, key)
		}
		lines.Write(plain.Bytes())
		if *rewrite {
			if err := os.WriteFile(defaultsFile, lines.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		stored, err := os.ReadFile(defaultsFile)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(lines.Bytes(), stored) {
			t.Errorf("%s differs from the default objects of Kubernetes: run this test with -rewrite, and check what changes", defaultsFile)
		}
	})
}
