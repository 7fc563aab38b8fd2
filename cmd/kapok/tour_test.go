package main

import (
	"os"
	"strings"
	"testing"
)

// TestTour takes the tour without a terminal: each step shows its command and its result, and
// nothing is left.
func TestTour(t *testing.T) {
	s := newShell(t, "")
	temp := t.TempDir()
	s.env = append(s.env, "TMPDIR="+temp, "TMP="+temp, "TEMP="+temp)
	code, out, errs := s.kapok("", "tour")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s\n%s", code, errs, out)
	}
	all := out
	for _, want := range []string{
		"customresourcedefinition.apiextensions.k8s.io/cakes.bakery.example.com created",
		"cake.bakery.example.com/sacher created",
		"sacher   chocolate   2",
		`spec.flavour: Unsupported value: "chalk": supported values: "chocolate", "nut", "plum"`,
		"What the cake tastes of.",
		"sacher   chocolate   5",
		"deployment.apps/web created",
		"deployment.apps/web   3/3",
		"deployment.apps/web image updated",
		"deployment.apps/web rolled back",
		"nginx:1.28",
		"nothing is left of it",
	} {
		_, after, found := strings.Cut(out, want)
		if !found {
			t.Fatalf("%q is missing, or not in this order, in:\n%s", want, out)
		}
		out = after
	}
	if strings.Contains(all, "\x1b") {
		t.Error("there are colors without a terminal")
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if home, err := os.ReadDir(s.home); err != nil || len(home) > 1 || len(home) == 1 && home[0].Name() != ".kube" {
		t.Errorf("left in the home directory: %v, %v", home, err)
	}
}
