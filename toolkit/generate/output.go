package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
)

// An output collects generated files, and writes them when all is generated.
type output struct {
	dir      string
	files    map[string]*bytes.Buffer // by absolute path
	owned    map[string]string        // the programs that have made a file, if its header says so, by absolute path
	warnings []string
	toStdout bool // some output is no file

	allowsUnknown bool // markers are warnings
}

func newOutput(dir string) *output {
	return &output{dir: dir, files: map[string]*bytes.Buffer{}, owned: map[string]string{}}
}

// put sets the content of a file.
func (o *output) put(path string, data []byte) { o.files[o.absolute(path)] = bytes.NewBuffer(data) }

// owns tells that a file is of a program, and that it is stale unless it is generated again.
func (o *output) owns(program, path string) { o.owned[o.absolute(path)] = program }

// ownsBelow is owns for all files below a directory.
func (o *output) ownsBelow(program, dir string) error {
	return filepath.WalkDir(o.absolute(dir), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.Type().IsRegular() && strings.HasSuffix(path, ".go"):
			o.owns(program, path)
		}
		return nil
	})
}

func (o *output) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(o.dir, path)
}

// collect returns rules that write to the output instead of files.
func (o *output) collect(rules genall.OutputRules) genall.OutputRules {
	collected := genall.OutputRules{ByGenerator: map[*genall.Generator]genall.OutputRule{}, Default: o.rule(rules.Default)}
	for g, rule := range rules.ByGenerator {
		collected.ByGenerator[g] = o.rule(rule)
	}
	return collected
}

func (o *output) rule(r genall.OutputRule) genall.OutputRule {
	if r == nil || r == genall.OutputToNothing || r == genall.OutputToStdout {
		o.toStdout = o.toStdout || r == genall.OutputToStdout
		return r
	}
	return rule{o, r}
}

// A rule finds out where an OutputRule of controller-tools writes, and keeps what it would write.
type rule struct {
	output *output
	of     genall.OutputRule
}

// Open implements genall.OutputRule.
func (r rule) Open(pkg *loader.Package, item string) (io.WriteCloser, error) {
	path, err := r.path(pkg, item)
	if err != nil {
		return nil, err
	}
	file := &bytes.Buffer{}
	r.output.files[r.output.absolute(path)] = file
	return keeper{file}, nil
}

func (r rule) path(pkg *loader.Package, item string) (string, error) {
	switch to := r.of.(type) {
	case genall.OutputToDirectory:
		return filepath.Join(string(to), item), nil
	case genall.OutputArtifacts:
		switch {
		case pkg == nil:
			return filepath.Join(string(to.Config), item), nil
		case to.Code != "":
			return filepath.Join(string(to.Code), item), nil
		case len(pkg.CompiledGoFiles) == 0:
			return "", fmt.Errorf("package %s has no Go files, next to which code could be written", pkg.PkgPath)
		}
		return filepath.Join(filepath.Dir(pkg.CompiledGoFiles[0]), item), nil
	}
	return "", fmt.Errorf("unknown form of output %T", r.of)
}

type keeper struct{ io.Writer }

func (keeper) Close() error { return nil }

// finish writes the files that are not current. With check it only tells which these are.
func (o *output) finish(check bool) (*Result, error) {
	result := &Result{}
	for _, path := range slices.Sorted(maps.Keys(o.files)) {
		data := o.files[path].Bytes()
		switch was, err := os.ReadFile(path); {
		case err == nil && bytes.Equal(was, data):
			result.Same++
			continue
		case err != nil && exists(path):
			return result, err
		}
		result.Written = append(result.Written, o.name(path))
		if check {
			continue
		}
		if err := replace(path, data); err != nil {
			return result, err
		}
	}
	result.Warnings = o.warnings
	return result, o.removeStale(result, check)
}

// state returns the state after a run.
func (o *output) state(after inputs, result *Result) *state {
	s := &state{Inputs: after.hash(), Outputs: map[string]string{}, Warnings: result.Warnings}
	for path, data := range o.files {
		s.Outputs[path] = hashOf(data.Bytes())
	}
	return s
}

// has reports whether the run may have written or removed a file.
func (o *output) has(path string) bool {
	for _, file := range []string{path, o.unresolved(path)} {
		if _, ok := o.files[file]; ok {
			return true
		}
		if _, ok := o.owned[file]; ok {
			return true
		}
	}
	return false
}

// unresolved returns a path below the directory of the run by its name, if that is a symbolic link.
func (o *output) unresolved(path string) string {
	if real, err := filepath.EvalSymlinks(o.dir); err == nil {
		if rel, err := filepath.Rel(real, path); err == nil && !strings.HasPrefix(rel, "..") {
			return filepath.Join(o.dir, rel)
		}
	}
	return path
}

// removeStale removes the files of the programs that have run which they have not generated again.
// With check it only tells which these are.
func (o *output) removeStale(result *Result, check bool) error {
	for _, path := range slices.Sorted(maps.Keys(o.owned)) {
		if o.files[path] != nil {
			continue
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if generatedBy(data) != o.owned[path] {
			continue
		}
		result.Removed = append(result.Removed, o.name(path))
		if check {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// generatedLine is the line in a generated Go file that names its program.
var generatedLine = regexp.MustCompile(`(?m)^// Code generated by (\S+)\. DO NOT EDIT\.$`)

// generatedBy returns the program that has generated a Go file, "" if none has.
func generatedBy(data []byte) string {
	head, _, _ := bytes.Cut(append([]byte("\n"), data...), []byte("\npackage "))
	if match := generatedLine.FindSubmatch(head); match != nil {
		return string(match[1])
	}
	return ""
}

// version is the beginning of the line of a definition with the version of controller-gen.
var version = []byte("\n    controller-gen.kubebuilder.io/version: ")

// orphans returns the definitions in a directory that controller-gen has made, and that nothing
// makes any more.
func (o *output) orphans(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(o.dir, dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range files {
		if _, ok := o.files[path]; ok {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("\nkind: CustomResourceDefinition\n")) && bytes.Contains(data, version) {
			names = append(names, o.name(path))
		}
	}
	return names, nil
}

// manifestDirs returns the directories with YAML files of the run.
func (o *output) manifestDirs() []string {
	var dirs []string
	for path := range o.files {
		if dir := o.name(filepath.Dir(path)); filepath.Ext(path) == ".yaml" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// name returns a path relative to the directory of the project.
func (o *output) name(path string) string {
	if name, err := filepath.Rel(o.dir, path); err == nil && !strings.HasPrefix(name, "..") {
		return name
	}
	return path
}

// replace writes a file, which has either its old or its new content at any time. Its mode stays,
// and a symbolic link, too.
func replace(path string, data []byte) (err error) {
	mode := fs.FileMode(0o644)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".kapok-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if _, err = temp.Write(data); err != nil {
		return errors.Join(err, temp.Close())
	}
	if err = temp.Chmod(mode); err != nil {
		return errors.Join(err, temp.Close())
	}
	if err = temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
