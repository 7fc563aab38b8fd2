package gates

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table in docs/feature-gates.md")

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		set map[string]bool
		err string // part of the error; "" for none
	}{
		{nil, ""},
		{map[string]bool{"PodsAPI": true, "CSIVolumeHealth": false, "AllAlpha": false}, ""},
		{map[string]bool{Flagz: false, Statusz: false}, ""},
		{map[string]bool{"PodsAPI": false}, "feature gate PodsAPI=false is not supported: it is always true here"},
		{map[string]bool{"CSIVolumeHealth": true}, "feature gate CSIVolumeHealth=true is not supported: it is always false here"},
		{map[string]bool{"podsapi": true}, `feature gate "podsapi" does not exist in Kubernetes 1.37`},
		{map[string]bool{"": true}, `feature gate "" does not exist`},
		{map[string]bool{"AllAlpha": true}, "feature gate AllAlpha=true changes gates"},
		{map[string]bool{"AllBeta": true}, "feature gate AllBeta=true changes gates"},
		{map[string]bool{"AllBeta": false}, "feature gate AllBeta=false changes gates"},
	} {
		switch err := Check(tc.set); {
		case tc.err == "" && err != nil:
			t.Errorf("%v: %v", tc.set, err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%v: %v, want %s", tc.set, err, tc.err)
		}
	}
	if Enabled(map[string]bool{Flagz: false}, Flagz) || !Enabled(nil, Flagz) || Enabled(nil, "CSIVolumeHealth") {
		t.Error("wrong gates are on")
	}
}

// TestList checks that binary search finds all gates, and that honoured ones exist.
func TestList(t *testing.T) {
	if !slices.IsSortedFunc(All(), func(a, b Gate) int { return strings.Compare(a.Name, b.Name) }) || len(All()) < 200 {
		t.Errorf("%d gates, or not in order", len(All()))
	}
	for _, g := range All() {
		if !slices.Contains([]string{"", "ALPHA", "BETA", "DEPRECATED"}, g.Stage) {
			t.Errorf("%s has stage %q", g.Name, g.Stage)
		}
	}
	for _, name := range Honoured() {
		if g, found := find(name); !found || g.Locked {
			t.Errorf("%s: %+v, %t", name, g, found)
		}
	}
}

// TestPage compares the table in docs/feature-gates.md with the gates.
func TestPage(t *testing.T) {
	const file, head = "../../docs/feature-gates.md", "| gate | stage | default |\n|---|---|---|\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, _, found := strings.Cut(string(page), head)
	if !found {
		t.Fatalf("%s has no table", file)
	}
	want := text + head
	for _, g := range All() {
		stage, value := strings.ToLower(g.Stage), "off"
		if g.Default {
			value = "on"
		}
		if g.Locked {
			value += ", locked"
		}
		if stage == "" {
			stage = "GA"
		}
		want += fmt.Sprintf("| %s | %s | %s |\n", g.Name, stage, value)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("the table of %s is not current: go test ./internal/gates -rewrite", file)
	}
}
