package kindtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A ValidationCase is an object, as a client sends it, and its errors.
type ValidationCase struct {
	Plural, Subresource string
	Old                 string // YAML; "" on create
	Sent                string // YAML
	Want                []string
}

// Validate compares the errors of objects with those that the cases want.
func Validate(t *testing.T, cases []ValidationCase) {
	t.Helper()
	for _, c := range cases {
		d := Definition(t, c.Plural)
		var got []string
		if c.Old == "" {
			got = Messages(d.Storage.Model.Validate(t.Context(), New(t, c.Plural, c.Sent), nil, ""))
		} else {
			got = Messages(d.Storage.Model.Validate(t.Context(), Decode(t, c.Plural, c.Sent), Decode(t, c.Plural, c.Old), c.Subresource))
		}
		name := c.Sent[:min(len(c.Sent), 200)]
		if diff := cmp.Diff(c.Want, got); diff != "" {
			t.Errorf("%s %s: %s", c.Plural, name, diff)
		}
	}
}

// A CellsCase is an object, as a client sends it, and the cells of its row, joined by "|".
type CellsCase = struct{ Plural, Obj, Want string }

// Cells compares the cells of objects at the time [Now].
func Cells(t *testing.T, cases []CellsCase) {
	t.Helper()
	for _, c := range cases {
		var got []string
		for _, cell := range Definition(t, c.Plural).Storage.Cells(Decode(t, c.Plural, c.Obj), Now) {
			got = append(got, fmt.Sprint(cell))
		}
		if got := strings.Join(got, "|"); got != c.Want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.Plural, c.Obj, got, c.Want)
		}
	}
}
