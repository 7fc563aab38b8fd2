package gates

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/emulation"
)

var rewrite = flag.Bool("rewrite", false, "write the tables in docs")

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		release emulation.Release
		set     map[string]bool
		err     string // part of the error; "" for none
	}{
		{37, nil, ""},
		{37, map[string]bool{"PodsAPI": true, "CSIVolumeHealth": false, "AllAlpha": false}, ""},
		{37, map[string]bool{Flagz: false, Statusz: false, EnvFiles: false}, ""},
		{37, map[string]bool{"PodsAPI": false}, "feature gate PodsAPI=false is not supported: it is always true here, the default of Kubernetes 1.37"},
		{37, map[string]bool{"CSIVolumeHealth": true}, "feature gate CSIVolumeHealth=true is not supported: it is always false here"},
		{37, map[string]bool{"podsapi": true}, `feature gate "podsapi" does not exist in Kubernetes 1.37`},
		{37, map[string]bool{"": true}, `feature gate "" does not exist`},
		{37, map[string]bool{"AllAlpha": true}, "feature gate AllAlpha=true changes gates"},
		{37, map[string]bool{"AllBeta": true}, "feature gate AllBeta=true changes gates"},
		{37, map[string]bool{"AllBeta": false}, "feature gate AllBeta=false changes gates"},
		{37, map[string]bool{NodeDeclaredFeatures: false}, "feature gate NodeDeclaredFeatures=false is not possible: Kubernetes 1.37 has locked it to true"},
		{36, map[string]bool{NodeDeclaredFeatures: false, HPAScaleToZero: true}, ""},
		{34, map[string]bool{NodeDeclaredFeatures: true}, `feature gate "NodeDeclaredFeatures" does not exist in Kubernetes 1.34`},
		{34, map[string]bool{"StorageCapacityScoring": false}, ""},
		{34, map[string]bool{"StorageCapacityScoring": true}, "it is always false here, the default of Kubernetes 1.34"},
	} {
		switch err := (Settings{tc.release, tc.set}).Check(); {
		case tc.err == "" && err != nil:
			t.Errorf("%s, %v: %v", tc.release, tc.set, err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s, %v: %v, want %s", tc.release, tc.set, err, tc.err)
		}
	}
}

func TestEnabled(t *testing.T) {
	for _, tc := range []struct {
		settings Settings
		gate     string
		want     bool
	}{
		{Settings{37, nil}, Flagz, true},
		{Settings{37, map[string]bool{Flagz: false}}, Flagz, false},
		{Settings{37, nil}, "CSIVolumeHealth", false},
		{Settings{35, nil}, Flagz, false}, // alpha
		{Settings{35, map[string]bool{Flagz: true}}, Flagz, true},
		{Settings{36, nil}, Flagz, true},
		{Settings{34, nil}, NodeDeclaredFeatures, false}, // not there yet
		{Settings{35, nil}, EnvFiles, true},
		{Settings{34, nil}, EnvFiles, false},
		{Settings{37, nil}, "NoSuchGate", false},
	} {
		if got := tc.settings.Enabled(tc.gate); got != tc.want {
			t.Errorf("%v: %s is %t", tc.settings, tc.gate, got)
		}
	}
}

// TestList checks that binary search finds all gates, and that followed ones exist.
func TestList(t *testing.T) {
	for r := emulation.Oldest; r <= emulation.Newest; r++ {
		all := All(r)
		if !slices.IsSortedFunc(all, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) }) || len(all) < 150 {
			t.Errorf("%s has %d gates, or they are not in order", r, len(all))
		}
		for _, g := range all {
			if !slices.Contains([]string{"", "ALPHA", "BETA", "DEPRECATED"}, g.Stage) {
				t.Errorf("%s has stage %q in %s", g.Name, g.Stage, r)
			}
			if found, ok := find(r, g.Name); !ok || found != g {
				t.Errorf("%s is found as %+v in %s", g.Name, found, r)
			}
		}
	}
	for _, name := range Followed() {
		if g, found := find(emulation.Newest, name); !found || !g.Default {
			t.Errorf("%s: %+v, %t; want a gate that is on", name, g, found)
		}
	}
}

// TestPage compares the table in docs/feature-gates.md with the gates.
func TestPage(t *testing.T) {
	const head = "| gate | stage | default | can be changed |\n|---|---|---|---|\n"
	var rows strings.Builder
	for _, g := range All(emulation.Newest) {
		stage, value, changes := strings.ToLower(g.Stage), "off", ""
		if g.Default {
			value = "on"
		}
		if g.Locked {
			value += ", locked"
		} else if slices.Contains(Followed(), g.Name) {
			changes = "yes"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", g.Name, cmp.Or(stage, "GA"), value, changes)
	}
	compareTable(t, "../../docs/feature-gates.md", head, rows.String())
}

// TestReleases compares the table in docs/emulated-version.md with the gates that differ.
func TestReleases(t *testing.T) {
	const head = "| gate | 1.34 | 1.35 | 1.36 | 1.37 | followed |\n|---|---|---|---|---|---|\n"
	compareTable(t, "../../docs/emulated-version.md", head, strings.Join(differing(), ""))
}

// differing returns the rows of the gates whose default differs.
func differing() []string {
	var all []string
	for _, g := range rows() {
		var cells []string
		for r := emulation.Oldest; r <= emulation.Newest; r++ {
			cell := "none"
			if in, found := g.in(r); found {
				cell = "off"
				if in.Default {
					cell = "on"
				}
			}
			cells = append(cells, cell)
		}
		if !slices.Contains(cells, "on") || !slices.Contains(cells, "off") && !slices.Contains(cells, "none") {
			continue
		}
		followed := ""
		if slices.Contains(Followed(), g.name) {
			followed = "yes"
		}
		all = append(all, fmt.Sprintf("| %s | %s | %s |\n", g.name, strings.Join(cells, " | "), followed))
	}
	return all
}

// compareTable compares the table at the end of a page with rows.
func compareTable(t *testing.T, file, head, rows string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, _, found := strings.Cut(string(page), head)
	if !found {
		t.Fatalf("%s has no table", file)
	}
	want := text + head + rows
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("the table of %s is not current: go test ./internal/gates -rewrite", file)
	}
}
