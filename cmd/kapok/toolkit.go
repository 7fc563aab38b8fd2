package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
)

// The toolkit is a program of its own, kapok-toolkit: the libraries of scaffolding and generators
// are larger than those of the server, and no server needs them.
const (
	toolkitName   = "kapok-toolkit"
	toolkitModule = "github.com/kapok-dev/kapok/toolkit"
	// toolkitPath is the environment variable with the path of another toolkit, sourcePath the one
	// with the clone of Kapok that projects use, and selfPath tells the toolkit where this program is.
	toolkitPath = "KAPOK_TOOLKIT"
	sourcePath  = "KAPOK_SOURCE"
	selfPath    = "KAPOK_SELF"
)

// newToolkit returns the commands that the toolkit executes, with all their arguments.
func newToolkit() []*cobra.Command {
	var all []*cobra.Command
	for _, of := range []struct{ name, short string }{
		{"init", "Create the project of an operator in this directory"},
		{"create", "Add an API, a controller or webhooks to a project: create api, create webhook"},
		{"edit", "Change settings of a project"},
		{"upgrade", "Merge the scaffolds of this version into a project"},
		{"generate", "Generate code and manifests from Go types"},
		{"vet", "Find mistakes in the Go types of an API and their markers"},
		{"import", "Make Go types from CustomResourceDefinitions"},
		{"explain", "Explain a marker of the generators"},
		{"alpha", "Scaffold a project again, from its PROJECT file: alpha generate"},
	} {
		all = append(all, newOfToolkit(of.short, of.name))
	}
	return all
}

// newOfToolkit returns a command that the toolkit executes, by its names there.
func newOfToolkit(short string, names ...string) *cobra.Command {
	c := &cobra.Command{
		Use:                names[len(names)-1],
		Short:              short,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			return toolkit(append(slices.Clone(names), args...), c.ErrOrStderr())
		},
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if err := toolkit(append(slices.Clone(names), "--help"), c.ErrOrStderr()); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "kapok: %v\n", err)
		}
	})
	return c
}

// toolkit runs the toolkit in place of this program. It returns an error if the toolkit cannot be
// run.
func toolkit(args []string, progress io.Writer) error {
	line, err := toolkitCommand(progress, args...)
	if err != nil {
		return failed(err)
	}
	env := os.Environ()
	if self, err := os.Executable(); err == nil {
		env = append(env, selfPath+"="+self)
	}
	if source := toolkitSource(); source != "" && os.Getenv(sourcePath) == "" {
		env = append(env, sourcePath+"="+filepath.Dir(source))
	}
	return failed(fmt.Errorf("run %s: %w", toolkitName, become(line, env)))
}

// toolkitCommand returns the command line that runs the toolkit, which is built if it is missing.
func toolkitCommand(progress io.Writer, args ...string) ([]string, error) {
	path, err := findToolkit(progress)
	return append([]string{path}, args...), err
}

// findToolkit returns the path of the toolkit: as the environment names it, beside this program, or
// in PATH. Otherwise it is built: by the source of this program if that is a clone, or else in the
// version of this program, which is downloaded.
func findToolkit(progress io.Writer) (string, error) {
	if path := os.Getenv(toolkitPath); path != "" {
		return path, nil
	}
	name := toolkitName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); exists(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s is not installed, and there is no directory to build it in: %w", toolkitName, err)
	}
	if source := toolkitSource(); source != "" {
		path := filepath.Join(cache, "kapok", "toolkit", name)
		if exists(path) {
			progress = io.Discard // go only looks whether the source has changed
		}
		return path, build(progress, []string{"build", "-C", source, "-o", path, "./cmd/" + toolkitName}, nil)
	}
	version := ownVersion()
	if version == "" {
		return "", fmt.Errorf("%s is not installed: in a clone of Kapok, run go install -C toolkit ./cmd/%[1]s", toolkitName)
	}
	dir := filepath.Join(cache, "kapok", "toolkit", version)
	path := filepath.Join(dir, name)
	if exists(path) {
		return path, nil
	}
	return path, build(progress, []string{"install", toolkitModule + "/cmd/" + toolkitName + "@" + version}, []string{"GOBIN=" + dir})
}

// build runs the go command, and returns an error with what that says.
func build(progress io.Writer, args, env []string) error {
	fmt.Fprintf(progress, "Building %s ...\n", toolkitName)
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", toolkitName, err, out)
	}
	return nil
}

// toolkitSource returns the directory of the toolkit in the clone from which this program was
// built, "" if there is none any more, or if the program was built with -trimpath.
func toolkitSource() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	dir := filepath.Join(filepath.Dir(file), "..", "..", "toolkit")
	if !exists(filepath.Join(dir, "go.mod")) || inModuleCache(dir) {
		return ""
	}
	return dir
}

// inModuleCache reports whether a directory belongs to a downloaded module: it is called
// MODULE@VERSION.
func inModuleCache(dir string) bool {
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if matched, _ := filepath.Match("*@v*", filepath.Base(dir)); matched {
			return true
		}
	}
	return false
}

// ownVersion returns the version of this program if it is a published one.
func ownVersion() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
