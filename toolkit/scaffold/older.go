package scaffold

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/mod/semver"
)

// installOlder returns the path of the program that from names: kubebuilder@VERSION or
// kapok@VERSION, which are built in a directory, or the path of a program.
func installOlder(ctx context.Context, from, dir string, out io.Writer) (string, error) {
	name, version, published := strings.Cut(from, "@")
	if !published {
		path, err := filepath.Abs(from)
		if err != nil {
			return "", err
		}
		if info, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("--from %s: want kubebuilder@VERSION, kapok@VERSION or the path of such a program: %w", from, err)
		} else if !info.Mode().IsRegular() {
			return "", fmt.Errorf("--from %s: not a program", from)
		}
		return path, nil
	}
	if !semver.IsValid(version) {
		return "", fmt.Errorf("--from %s: the version must be like v1.2.3", from)
	}
	var targets []string
	switch major := semver.Major(version); {
	case name == "kapok":
		targets = []string{module + "/toolkit/cmd/kapok-toolkit"}
	case name == "kubebuilder":
		base := "sigs.k8s.io/kubebuilder"
		if major != "v0" && major != "v1" {
			base += "/" + major
		}
		targets = []string{base, base + "/cmd"} // newer and older versions
	default:
		return "", fmt.Errorf("--from %s: want kubebuilder@VERSION, kapok@VERSION or the path of such a program", from)
	}
	var said []byte
	var err error
	for _, target := range targets {
		fmt.Fprintf(out, "go install %s@%s\n", target, version)
		c := exec.CommandContext(ctx, "go", "install", target+"@"+version)
		c.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
		c.Dir = os.TempDir() // outside of the module of the project
		if said, err = c.CombinedOutput(); err == nil {
			return filepath.Join(dir, programOf(target)), nil
		}
		if !bytes.Contains(said, []byte("does not contain package")) {
			break
		}
	}
	return "", fmt.Errorf("build %s: %w\n%s\nIf you have this program, set --from to its path", from, err, bytes.TrimSpace(said))
}

// programOf returns the name that go install gives the program of a package: the last part of its
// path, without the suffix of a major version.
func programOf(target string) string {
	name := path.Base(target)
	if semver.IsValid(name) {
		name = path.Base(path.Dir(target))
	}
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// renderOlder runs command lines of an older program, or of kubebuilder, in an empty directory,
// with the flags that it knows, and returns the files that it makes.
func renderOlder(ctx context.Context, program, dir string, commands [][]string) (map[string][]byte, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	away, err := os.MkdirTemp("", "kapok-help-") // without a PROJECT file
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(away)
	var fitting [][]string
	for _, command := range commands {
		known, err := flagsOf(ctx, program, away, command)
		if err != nil {
			return nil, err
		}
		fitting = append(fitting, fit(command, known)...)
	}
	files, err := render(ctx, program, dir, fitting)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"PROJECT", "go.mod"} {
		if files[name] == nil {
			return nil, fmt.Errorf("%s has scaffolded no project: %s is missing", program, name)
		}
	}
	return files, nil
}

// flagsOf returns the flags that a program lists for a command, with their --.
func flagsOf(ctx context.Context, program, dir string, command []string) (map[string]bool, error) {
	args := []string{command[0]}
	for _, word := range command[1:] {
		if !strings.HasPrefix(word, "-") || strings.HasPrefix(word, "--plugins=") {
			args = append(args, word)
		}
	}
	c := exec.CommandContext(ctx, program, append(args, "--help")...)
	c.Dir = dir
	said, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s --help: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, bytes.TrimSpace(said))
	}
	known := map[string]bool{}
	for _, flag := range listedFlag.FindAllSubmatch(said, -1) {
		known[string(flag[1])] = true
	}
	return known, nil
}

// listedFlag finds the flags in a help text.
var listedFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[\w-]+)`)

// fit returns a command line with the flags that a program knows, and without make; what a flag of
// init does that it lacks is done by another command.
func fit(command []string, known map[string]bool) [][]string {
	var words []string
	var more [][]string
	for _, word := range command {
		flag, _, _ := strings.Cut(word, "=")
		switch {
		case !strings.HasPrefix(word, "--") || known[flag]:
			words = append(words, word)
		case flag == "--multigroup":
			more = append(more, []string{"edit", "--multigroup=true"})
		}
	}
	for _, flag := range []string{"--make", "--manifests"} {
		if known[flag] && command[0] == "create" {
			words = append(words, flag+"=false")
		}
	}
	return append([][]string{words}, more...)
}
