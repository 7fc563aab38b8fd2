package kinds

import (
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/resource"
)

// TestReservedNames checks that names of objects from files are invalid, and a warning while the
// feature is off.
func TestReservedNames(t *testing.T) {
	for _, on := range []bool{true, false} {
		definitions := Definitions()
		Emulate(definitions, gates.Settings{Set: map[string]bool{gates.ManifestBasedAdmission: on}})
		tested := 0
		for _, d := range definitions {
			if d.Group != admissionGroup {
				continue
			}
			tested++
			for name, reserved := range map[string]bool{"a.static.k8s.io": true, "a.k8s.io": false} {
				obj, errs, err := resource.Complete(t.Context(), d, d.Storage, []byte(`{"metadata": {"name": "`+name+`"}}`))
				if err != nil {
					t.Fatal(err)
				}
				if got, want := slices.ContainsFunc(errs, policies.IsReservedName), reserved && on; got != want {
					t.Errorf("%s %s with the feature %t: invalid %t, want %t: %v", d.Kind, name, on, got, want, errs)
				}
				var warnings []string
				if d.Strategy.Warnings != nil {
					warnings = d.Strategy.Warnings(obj, nil)
				}
				if got, want := len(warnings) > 0, reserved && !on; got != want {
					t.Errorf("%s %s with the feature %t: warnings %q, want some: %t", d.Kind, name, on, warnings, want)
				}
			}
		}
		if tested != 6 {
			t.Errorf("%d kinds, want 6", tested)
		}
	}
}
