package port

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata")

// TestCases rewrites the files "in" of testdata, compares the results with "out" and the findings
// with "findings", and rewrites the results again.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := split(t, string(text))
			moved, findings, err := File("main.go", []byte(parts["in"]))
			if err != nil {
				t.Fatal(err)
			}
			var lines strings.Builder
			for _, f := range findings {
				if f.Note {
					lines.WriteString("note: ")
				}
				fmt.Fprintln(&lines, f)
			}
			if *rewrite {
				text := parts[""] + "-- in --\n" + parts["in"] + "-- out --\n" + string(moved) + "-- findings --\n" + lines.String()
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if string(moved) != parts["out"] {
				t.Errorf("out:\n%s\nwant:\n%s", moved, parts["out"])
			}
			if lines.String() != parts["findings"] {
				t.Errorf("findings:\n%s\nwant:\n%s", lines.String(), parts["findings"])
			}
			if again, _, err := File("main.go", moved); err != nil || !bytes.Equal(again, moved) {
				t.Errorf("the second rewrite changes the file (%v):\n%s", err, again)
			}
		})
	}
}

// split returns the parts of a file, each of which follows a line "-- name --".
func split(t *testing.T, text string) map[string]string {
	t.Helper()
	parts := map[string]string{}
	marks := regexp.MustCompile(`(?m)^-- (\w+) --\n`).FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		t.Fatal("no parts")
	}
	parts[""] = text[:marks[0][0]]
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		parts[text[m[2]:m[3]]] = text[m[1]:end]
	}
	return parts
}

func TestDirLeavesOutWhatGoDoes(t *testing.T) {
	src := &fstest.MapFile{Data: []byte("package p\n\nimport _ \"" + From + "/pkg/client\"\n")}
	dir := fstest.MapFS{"go.mod": {}, "main.go": src, "a/a_test.go": src, "vendor/v.go": src, "a/testdata/t.go": src, ".git/g.go": src,
		"_old/o.go": src, "nested/go.mod": {}, "nested/n.go": src, "a/readme.md": src, "other.go": {Data: []byte("package p\n")}}
	changes, findings, err := Dir(dir)
	if err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	var names []string
	for _, c := range changes {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "a/a_test.go main.go" {
		t.Error(got)
	}
}

func TestDirNamesFilesThatAreNotGo(t *testing.T) {
	dir := fstest.MapFS{"bad.go": {Data: []byte("package " + From)}, "good.go": {Data: []byte("package p\n\nimport _ \"" + From + "/pkg/client\"\n")}}
	changes, _, err := Dir(dir)
	if err == nil || !strings.Contains(err.Error(), "bad.go:1") || len(changes) != 1 {
		t.Error(changes, err)
	}
}

func TestWriteKeepsPermissionsAndWhatOthersWrote(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "main.go")
	if err := os.WriteFile(name, []byte("before"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, []Change{{"main.go", []byte("other"), []byte("after")}}); err == nil {
		t.Error("Write overwrites a changed file")
	}
	if err := Write(dir, []Change{{"main.go", []byte("before"), []byte("after")}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	info, _ := os.Stat(name)
	if err != nil || string(data) != "after" || info.Mode().Perm()&^0o600 != 0o040 && os.PathSeparator == '/' {
		t.Error(string(data), info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Error("other files exist", entries)
	}
}

// TestNamesAreCurrent compares the list of names with the packages.
func TestNamesAreCurrent(t *testing.T) {
	before := namesText
	cmd := exec.Command("go", "run", "./gen", "-print")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != before {
		t.Error("names.txt is not current: run go generate ./internal/port")
	}
}

func TestTablesNameWhatThereIs(t *testing.T) {
	for from, to := range packages {
		if _, ok := targets()[to]; !ok {
			t.Errorf("%s becomes %s, which does not exist", from, to)
		}
	}
	for from, to := range renamed {
		if pkg, _ := cut(from); !targets()[packages[pkg]].exported[to] {
			t.Errorf("%s becomes %s, which does not exist", from, to)
		}
	}
	for whole, names := range zapNames {
		for name, to := range names {
			if !targets()["manager/zap"].exported[to] {
				t.Errorf("%s.%s becomes zap.%s, which does not exist", whole, name, to)
			}
		}
	}
	for what := range changed {
		if pkg, name := cut(what); !targets()[packages[pkg]].exported[name] {
			t.Errorf("%s does not exist", what)
		}
	}
	for what := range advice {
		pkg, name := cut(what)
		if name == "" {
			continue
		}
		if to, ok := packages[pkg]; !ok || targets()[to].exported[name] {
			t.Errorf("the advice for %s is obsolete", what)
		}
	}
}

// cut splits a qualified name into package and name.
func cut(full string) (pkg, name string) {
	dir, base := path.Split(full)
	base, name, _ = strings.Cut(base, ".")
	return dir + base, name
}
