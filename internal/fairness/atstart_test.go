package fairness

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/builtin"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

var rewrite = flag.Bool("rewrite", false, "write atstart.jsonl")

// newStore is an empty store of the built-in kinds.
func newStore(t testing.TB) *resource.Store {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return resource.NewStore(st, resource.NewRegistry(builtin.Definitions()...))
}

// TestAtStart makes the objects that Kubernetes has from its start as a client would, and finds in atstart.jsonl what is
// stored then.
func TestAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which begins at placeTime
		store := newStore(t)
		m := &maintainer{store: store}
		objects := map[string]any{}
		for _, all := range [][]*flowcontrolv1.PriorityLevelConfiguration{
			bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations,
		} {
			for _, o := range all {
				objects["level "+o.Name] = o
			}
		}
		for _, all := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
			for _, o := range all {
				objects["schema "+o.Name] = o
			}
		}
		var lines, plain bytes.Buffer
		line := func(to *bytes.Buffer, at *start) {
			o, _ := store.State().Get(at.key)
			to.Write(bytes.ReplaceAll(o.Raw, []byte(o.Meta.UID), []byte(placeUID)))
			to.WriteByte('\n')
		}
		for _, at := range atStart() {
			name := "level " + at.key.Name
			if at.matcher != nil {
				name = "schema " + at.key.Name
			}
			body, err := json.Marshal(objects[name])
			if err != nil {
				t.Fatal(err)
			}
			r := m.request(at.key, "", producer)
			r.Name = ""
			if _, err := store.Create(t.Context(), r, resource.Body{Data: body}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if at.matcher != nil {
				line(&plain, at)
				if err := m.tell(t.Context(), at.key, danglingCondition(at.matcher.level, true)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			line(&lines, at)
		}
		lines.Write(plain.Bytes())
		if *rewrite {
			if err := os.WriteFile("atstart.jsonl", lines.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(lines.Bytes(), atStartLines) {
			t.Error("atstart.jsonl is not what Kubernetes has from its start: run this test with -rewrite, and look at what changes")
		}
	})
}
