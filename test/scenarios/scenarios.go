package scenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/cockroachdb/datadriven"
	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A World is a server with the controllers that are tested.
type World struct {
	Config *rest.Config
	// Settle returns when the controllers have been quiet for a second and a half. busy reports
	// whether something has changed since it was called last.
	Settle func(ctx context.Context, busy func() bool) error
	// Metrics serve the metrics APIs of the server. Scripts without the step metrics do not need them.
	Metrics *Metrics
}

// Options configure Run.
type Options struct {
	// Dir has the scripts, in folders: DIR/*/*.txt.
	Dir string
	// Record allows the flag -rewrite, which writes the outcomes to the scripts. Only the oracle sets
	// it.
	Record bool
	// Play runs a function with a world, which may be a testing/synctest bubble. The controllers have
	// these flags of kube-controller-manager. With flags, scripts share a world only with others that
	// have the same.
	Play func(t *testing.T, flags []string, with func(t *testing.T, w World))
}

// Run plays all scripts, each with a subtest and a world.
func Run(t *testing.T, o Options) {
	t.Helper()
	if rewriting() && !o.Record {
		t.Fatal("outcomes are recorded by test/oracle; see its README.md")
	}
	files, err := filepath.Glob(filepath.Join(o.Dir, "*", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s (%v)", o.Dir, err)
	}
	for _, file := range files {
		rel, _ := filepath.Rel(o.Dir, file)
		t.Run(strings.TrimSuffix(filepath.ToSlash(rel), ".txt"), func(t *testing.T) {
			t.Parallel()
			flags, err := flagsOf(file)
			if err != nil {
				t.Fatal(err)
			}
			o.Play(t, flags, func(t *testing.T, w World) { play(t, w, file) })
		})
	}
}

// flagsOf returns the flags that a script begins with.
func flagsOf(file string) (flags []string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "--") && line != "----":
			flags = append(flags, line)
		case line != "flags":
			return flags, nil
		}
	}
	return flags, nil
}

func rewriting() bool {
	f := flag.Lookup("rewrite")
	return f != nil && f.Value.String() == "true"
}

// play plays a script to its end. Each difference is an error.
func play(t *testing.T, w World, file string) {
	config := rest.CopyConfig(w.Config)
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := createNodes(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(filepath.Base(file), ".txt")
	var s *scenario
	defer func() { s.close(t.Context()) }()
	var differences []string // datadriven would end the file at the first one
	texts := map[string]string{}
	n := 0
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "scenario" {
			if len(d.CmdArgs) != 1 {
				d.Fatalf(t, "scenario needs one name")
			}
			s.close(t.Context())
			n++
			if s, err = begin(t.Context(), w, c, d.CmdArgs[0].Key, fmt.Sprintf("%s-%d", base, n)); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return ""
		}
		if d.Cmd == "flags" {
			return "" // Run has read them
		}
		for name, text := range texts {
			d.Input = strings.ReplaceAll(d.Input, name, text)
		}
		if d.Cmd == "define" {
			if len(d.CmdArgs) != 1 {
				d.Fatalf(t, "define needs one name")
			}
			texts["{"+d.CmdArgs[0].Key+"}"] = d.Input
			return ""
		}
		if s == nil {
			d.Fatalf(t, "a script begins with a scenario")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		got, err := s.step(ctx, d)
		if err != nil {
			got = "error: " + s.text(err.Error()) + "\n"
		}
		if rewriting() {
			return got
		}
		if got != d.Expected {
			differences = append(differences, fmt.Sprintf("%s: %s\n%s", d.Pos, s.name, unified(d.Expected, got)))
		}
		return d.Expected
	})
	for _, difference := range differences {
		t.Error(difference)
	}
}

// createNodes creates the nodes to which pods can be bound. Kubernetes removes pods of nodes that
// do not exist.
func createNodes(ctx context.Context, c client.Client) error {
	for _, name := range []string{"n1", "n2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.Create(ctx, n); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

func unified(want, got string) string {
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(want), FromFile: "kube-controller-manager",
		B: difflib.SplitLines(got), ToFile: "these controllers",
		Context: 4,
	})
	if err != nil {
		return err.Error()
	}
	return diff
}
