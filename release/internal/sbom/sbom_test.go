package sbom

import (
	"bytes"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

const sum = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" // of nothing

func info(deps ...*debug.Module) *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.8 X:nothing", Path: "example.com/kapok/cmd/kapok",
		Main: debug.Module{Path: "example.com/kapok", Version: "(devel)"}, Deps: deps,
	}
}

func subject() Subject {
	return Subject{
		Name: "kapok-v0.1.0-linux-amd64", File: "kapok", Version: "v0.1.0", SHA256: strings.Repeat("0a", 32), License: "Apache-2.0",
		Repository: "https://example.com/kapok", Commit: strings.Repeat("c", 40), Supplier: "The authors", Time: time.Unix(1767323045, 0),
	}
}

// TestDocument reads a document with the library of SPDX.
func TestDocument(t *testing.T) {
	d, err := describe(info(
		&debug.Module{Path: "example.com/a", Version: "v1.0.0", Sum: sum},
		&debug.Module{Path: "example.com/a-b/v2", Version: "v2.0.0+incompatible"},
		&debug.Module{Path: "example.com/old", Version: "v1.0.0", Sum: sum, Replace: &debug.Module{Path: "example.com/new", Version: "v1.1.0", Sum: sum}},
	), subject())
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	read, err := json.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(read); err != nil {
		t.Error(err)
	}
	var got []string
	for _, p := range read.Packages {
		line := p.PackageExternalReferences[0].Locator
		if len(p.PackageChecksums) == 1 {
			line += " " + p.PackageChecksums[0].Value[:8]
		}
		got = append(got, line)
	}
	want := []string{
		"pkg:golang/example.com/kapok@v0.1.0 0a0a0a0a",
		"pkg:golang/stdlib@1.26.8",
		"pkg:golang/example.com/a@v1.0.0 e3b0c442",
		"pkg:golang/example.com/a-b/v2@v2.0.0%2Bincompatible",
		"pkg:golang/example.com/new@v1.1.0 e3b0c442",
	}
	if !slices.Equal(got, want) {
		t.Errorf("packages\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(read.Relationships) != len(want) {
		t.Errorf("%d relationships, want one for each package", len(read.Relationships))
	}
}

func TestUnknownChecksum(t *testing.T) {
	for _, sum := range []string{"h2:AAAA", "h1:*"} {
		if _, err := describe(info(&debug.Module{Path: "example.com/a", Version: "v1.0.0", Sum: sum}), subject()); err == nil {
			t.Errorf("the checksum %s is accepted", sum)
		}
	}
}

func TestIdentifiersDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, path := range []string{"a/b", "a-b", "a_b", "a.b", "a/b/v2", "A/b", "a~b"} {
		id := identifier(path)
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have the identifier %s", path, other, id)
		}
		seen[id] = path
	}
}

func TestReadFails(t *testing.T) {
	if _, err := Read("sbom_test.go", subject()); err == nil {
		t.Error("a text has build information")
	}
}
