package corpus

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/client-go/rest"
)

// Options configure a run. Dir is required.
type Options struct {
	// Dir has the scripts, *.txt.
	Dir string
	// Record allows the flag -rewrite, which writes the responses to the scripts. Only the oracle
	// sets it; otherwise -rewrite is an error.
	Record bool
	// Differences is a Markdown page with indented lines "file/case: reason": the cases in which
	// this server is known to differ. Such a case must differ; of the cases that a pattern
	// "file/prefix-*" matches, at least one must. Default: none.
	Differences string
	// Parallel runs scripts at the same time. Each must have a server of its own then.
	Parallel bool
}

// A Server is a server to run scripts against.
type Server struct {
	// Config is that of a client with all permissions.
	Config *rest.Config
	// Anonymous reaches the server; credentials in it are removed. Nil: Config without credentials,
	// which does not work if access to the server is the credential.
	Anonymous *rest.Config
	// Compact makes the server drop its history. Nil: cases that need it are skipped.
	Compact func(context.Context) error
	// Namespace is a namespace for the scripts. Empty: each creates one.
	Namespace string
}

// Run runs all scripts, each against the server that start returns for it, with a subtest for each
// script and each of its cases.
func Run(t *testing.T, start func(*testing.T) Server, o Options) {
	t.Helper()
	if rewriting() && !o.Record {
		t.Fatal("golden files are recorded by test/oracle; see its README.md")
	}
	listed, err := readDifferences(o.Differences)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(o.Dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s (%v)", o.Dir, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			if o.Parallel {
				t.Parallel()
			}
			runFile(t, start(t), o, file, listed.of(name))
		})
	}
}

// Release returns the release that a script in testdata/emulated is about, such as 1.36. name is
// that of its test.
func Release(name string) string { return name[strings.LastIndex(name, "-")+1:] }

func rewriting() bool {
	f := flag.Lookup("rewrite")
	return f != nil && f.Value.String() == "true"
}

// A verdict is the outcome of a case.
type verdict struct {
	name    string
	skipped string // the reason, "" if it ran
	diffs   []string
}

func runFile(t *testing.T, server Server, o Options, file string, listed differences) {
	s, err := newSession(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	current := &verdict{name: "setup"} // the steps before the first case
	verdicts := []*verdict{current}
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "case" {
			if len(d.CmdArgs) != 1 {
				d.Fatalf(t, "case needs one name")
			}
			current = &verdict{name: d.CmdArgs[0].Key}
			if slices.ContainsFunc(verdicts, func(v *verdict) bool { return v.name == current.name }) {
				d.Fatalf(t, "a second case of this name")
			}
			verdicts = append(verdicts, current)
			s.beginCase()
			return ""
		}
		if current.skipped != "" {
			return d.Expected
		}
		got, err := s.step(t.Context(), d)
		if err == errSkip {
			current.skipped = "the server cannot do what " + d.Cmd + " asks for"
			return d.Expected
		}
		if err != nil {
			got = "error: " + s.n.text(err.Error()) + "\n"
			if o.Record {
				t.Logf("%s: %v", d.Pos, err)
			}
		}
		if rewriting() {
			return got
		}
		if got != d.Expected {
			current.diffs = append(current.diffs, d.Pos+"\n"+unified(d.Expected, got))
		}
		// datadriven would end the file at the first difference; judge compares below.
		return d.Expected
	})
	for _, v := range verdicts {
		t.Run(v.name, func(t *testing.T) { v.judge(t, listed) })
	}
	for _, complaint := range listed.stale(verdicts) {
		t.Errorf("%s: %s", o.Differences, complaint)
	}
}

// judge fails t if the outcome of the case is not the expected one.
func (v *verdict) judge(t *testing.T, listed differences) {
	if v.skipped != "" {
		t.Skip(v.skipped)
	}
	if complaint := v.failure(listed); complaint != "" {
		t.Error(complaint)
	} else if len(v.diffs) != 0 {
		d, _ := listed.find(v.name)
		t.Logf("differs as known: %s", d.reason)
	}
}

// failure describes an unexpected outcome: a case must match the golden file, or differ from it if
// it is listed.
func (v *verdict) failure(listed differences) string {
	d, found := listed.find(v.name)
	switch {
	case !found:
		return strings.Join(v.diffs, "\n")
	case len(v.diffs) == 0 && !d.pattern():
		return "answers as kube-apiserver does; remove it from the differences (" + d.reason + ")"
	}
	return ""
}

// stale returns the listed differences of a file that do not exist.
func (d differences) stale(verdicts []*verdict) (complaints []string) {
	for _, d := range d {
		needed := slices.ContainsFunc(verdicts, func(v *verdict) bool {
			return d.about(v.name) && (!d.pattern() || v.skipped != "" || len(v.diffs) != 0)
		})
		switch {
		case !needed && d.pattern():
			complaints = append(complaints, fmt.Sprintf("no case %s/%s differs; remove it (%s)", d.file, d.name, d.reason))
		case !needed:
			complaints = append(complaints, fmt.Sprintf("case %s/%s does not exist", d.file, d.name))
		}
	}
	return complaints
}

func unified(want, got string) string {
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(want), FromFile: "kube-apiserver",
		B: difflib.SplitLines(got), ToFile: "this server",
		Context: 4,
	})
	if err != nil {
		return err.Error()
	}
	return diff
}
