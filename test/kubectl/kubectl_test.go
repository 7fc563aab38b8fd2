// Package kubectl runs kubectl against the kapok binary. Both are built from source, so that a new
// machine needs only Go.
//
// The scripts in testdata document the output for users: each "run" has a few shell commands and
// their output, including standard error. Every file gets its own server, in memory, and another
// one on which "kapok kubectl" replaces kubectl and must print the same. Record again, with
// kubectl, by
//
//	go test ./... -rewrite
//
// and review the difference.
//
// [TestGuides] runs the commands of the pages in docs, in bash.
//
// [TestControllersElsewhere] runs the script of the controllers on another API server; package
// test/oracle calls it with kube-apiserver.
package kubectl

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// bin has the programs that TestMain builds.
var bin string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "kapok-kubectl-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	bin = dir
	for name, build := range map[string]*exec.Cmd{
		"kubectl": exec.Command("go", "build", "-ldflags", "-X k8s.io/component-base/version.gitVersion=v1.37.2", "-o", filepath.Join(dir, "kubectl"), "./kubectl"),
		"helm":    exec.Command("go", "build", "-o", filepath.Join(dir, "helm"), "helm.sh/helm/v4/cmd/helm"),
		"kapok":   exec.Command("go", "build", "-o", filepath.Join(dir, "kapok"), "./cmd/kapok"),
		"network": exec.Command("go", "build", "-o", filepath.Join(dir, "network"), "./examples/network"),
		"foo":     exec.Command("go", "build", "-o", filepath.Join(dir, "foo"), "./examples/foo"),
		"at":      exec.Command("go", "build", "-o", filepath.Join(dir, "at"), "./examples/at"),
		"cronjob": exec.Command("go", "build", "-o", filepath.Join(dir, "cronjob"), "./examples/cronjob"),
	} {
		switch name {
		case "kapok", "network", "foo", "at", "cronjob":
			build.Dir = filepath.Join("..", "..")
		}
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	if err := standIn(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// standIn creates the kubectl that is kapok's.
func standIn() error {
	if err := os.Mkdir(kapokBin(), 0o700); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' kubectl \"$@\"\n", filepath.Join(bin, "kapok"))
	return os.WriteFile(filepath.Join(kapokBin(), "kubectl"), []byte(script), 0o700)
}

// kapokBin has the kubectl that is kapok's.
func kapokBin() string { return filepath.Join(bin, "of-kapok") }

func TestScripts(t *testing.T) { scripts(t, bin) }

// TestScriptsOfKapok checks that the kubectl in kapok prints what kubectl prints.
func TestScriptsOfKapok(t *testing.T) {
	if flag.Lookup("rewrite").Value.String() == "true" {
		t.Skip("what kubectl prints is being recorded")
	}
	scripts(t, kapokBin())
}

// scripts runs all scripts with the kubectl of a directory.
func scripts(t *testing.T, dir string) {
	path := "PATH=" + strings.Join([]string{dir, bin, os.Getenv("PATH")}, string(os.PathListSeparator))
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, file string) {
		t.Parallel()
		// Most scripts are about the server alone.
		s := start(t, "--controllers="+map[string]string{"controllers.txt": "*"}[filepath.Base(file)])
		s.env = append(s.env, path)
		if used := s.run(t, "basename $(dirname $(command -v kubectl))"); used != filepath.Base(dir)+"\n" {
			t.Fatalf("kubectl is in %s, not in %s", used, dir)
		}
		s.script(t, file)
	})
}

var kubeconfig = flag.String("kubeconfig", "", "the server of TestControllersElsewhere, which must be new and have a garbage collector")

// TestControllersElsewhere checks that Kapok's controllers do on the server of -kubeconfig what
// they do on Kapok.
func TestControllersElsewhere(t *testing.T) {
	if *kubeconfig == "" {
		t.Skip("needs a server: -kubeconfig FILE")
	}
	s := newServer(t.TempDir(), *kubeconfig)
	kapok(t, "controllers", "--kubeconfig", *kubeconfig, "--leader-elect=false")
	s.script(t, "testdata/scripts/controllers.txt")
}

// script runs the commands of a file.
func (s *server) script(t *testing.T, file string) {
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "run" {
			t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
		}
		return s.run(t, d.Input)
	})
}

// A server is a kapok process and the environment of commands that use it.
type server struct {
	home string
	env  []string
}

func newServer(home, kubeconfig string) *server {
	return &server{home: home, env: append(os.Environ(),
		"KUBECONFIG="+kubeconfig, "HOME="+home, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))}
}

// start runs kapok up until the test ends, and waits until it is ready.
func start(t *testing.T, flags ...string) *server {
	t.Helper()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	ended := kapok(t, append([]string{"up", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig}, flags...)...)
	// The kubeconfig is written when the server is ready.
	ready := time.NewTicker(5 * time.Millisecond)
	defer ready.Stop()
	deadline := time.After(30 * time.Second)
	for {
		if _, err := os.Stat(kubeconfig); err == nil {
			return newServer(home, kubeconfig)
		}
		select {
		case <-ready.C:
		case <-ended:
			t.FailNow() // the cleanup reports why
		case <-deadline:
			t.Fatal("kapok is not ready after 30 s")
		}
	}
}

// kapok runs a command of kapok until the test ends. The channel is closed when it has ended.
func kapok(t *testing.T, args ...string) (ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "kapok"), args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var err error // set before done is closed
	go func() {
		defer close(done)
		err = cmd.Wait()
	}()
	t.Cleanup(func() {
		interrupt := cmd.Process.Signal(os.Interrupt) // an error if it has ended by itself
		<-done
		if err := errors.Join(interrupt, err); err != nil {
			t.Errorf("kapok %s: %v\n%s", args[0], err, &out)
		} else if t.Failed() {
			t.Logf("kapok %s: its log:\n%s", args[0], &out)
		}
	})
	return done
}

// run runs the commands one by one and returns their output.
func (s *server) run(t *testing.T, commands string) string {
	t.Helper()
	var out strings.Builder
	for _, line := range splitCommands(commands) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Dir, cmd.Env = filepath.Join("testdata", "manifests"), s.env
		printed, err := cmd.CombinedOutput()
		cancel()
		out.Write(printed)
		if len(printed) > 0 && printed[len(printed)-1] != '\n' {
			out.WriteByte('\n')
		}
		if err != nil {
			fmt.Fprintf(&out, "[%v]\n", err)
		}
	}
	return normalize(out.String())
}

// splitCommands splits a text into commands; a here-document belongs to its command.
func splitCommands(text string) (commands []string) {
	end := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case end != "":
			commands[len(commands)-1] += "\n" + line
			if line == end {
				end = ""
			}
			continue
		case strings.Contains(line, "<<"):
			_, word, _ := strings.Cut(line, "<<")
			end = strings.Trim(strings.Fields(word)[0], "'\"")
		}
		commands = append(commands, line)
	}
	return commands
}

// The values that differ between runs.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=<hash>"},
	{regexp.MustCompile(`20(2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`[MTWFS][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d [+-]\d{4}`), "<time>"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC`), "<time>"},
	{regexp.MustCompile(`(resourceVersion"?: *)"\d+"`), `$1"<rv>"`},
	{regexp.MustCompile(`(\\"resourceVersion\\":)\\"\d+\\"`), `$1\"<rv>\"`},
	{regexp.MustCompile(`(Resource Version: +)\d+`), "$1<rv>"},
	{regexp.MustCompile(`\\"managedFields\\":\[.*\],(\\"name\\")`), `\"managedFields\":[<by time, and by name within a second>],$1`},
	{regexp.MustCompile(`kube-api-access-\w{5}`), "kube-api-access-<suffix>"},
	{regexp.MustCompile(`https://127\.0\.0\.1:\d+`), "https://<address>"},
	{regexp.MustCompile(`(?m)( {2,}|^)(<invalid>|\d+(s|ms|m|m\d+s))( *)( {3,}|$)`), "$1<age>$5"},
	{regexp.MustCompile(`/tmp/[\w./-]+`), "<tmp>"},
	{regexp.MustCompile(`(unable to find api field )"\w+"`), `$1"<one of them>"`}, // the first of a map
	{regexp.MustCompile(`(?m)^([WE])\d{4} [\d:.]+ +\d+ `), "$1 "},
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
}

func normalize(s string) string {
	for _, v := range volatile {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	return s
}
