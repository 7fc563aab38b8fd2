package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
)

// An output collects generated files, and writes them when all is generated.
type output struct {
	dir   string
	files map[string]*bytes.Buffer // by absolute path
}

func newOutput(dir string) *output { return &output{dir: dir, files: map[string]*bytes.Buffer{}} }

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
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.output.dir, path)
	}
	file := &bytes.Buffer{}
	r.output.files[path] = file
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
		data := versioned(o.files[path].Bytes())
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
	return result, nil
}

// version is the annotation with the version of controller-gen in a definition.
var version = regexp.MustCompile(`(?m)^(    controller-gen\.kubebuilder\.io/version: ).*$`)

// versioned returns a file with the version of controller-tools in place of the version of this program,
// for which controller-tools takes itself.
func versioned(data []byte) []byte {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return data
	}
	for _, m := range info.Deps {
		if m.Path == "sigs.k8s.io/controller-tools" {
			return version.ReplaceAll(data, []byte("${1}"+m.Version))
		}
	}
	return data
}

// orphans returns the definitions in a directory that controller-gen has made, and that nothing makes
// any more.
func (o *output) orphans(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(o.dir, dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range files {
		if o.files[path] != nil {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("\nkind: CustomResourceDefinition\n")) && version.Match(data) {
			names = append(names, o.name(path))
		}
	}
	return names, nil
}

// name returns a path relative to the directory of the project.
func (o *output) name(path string) string {
	if name, err := filepath.Rel(o.dir, path); err == nil && !strings.HasPrefix(name, "..") {
		return name
	}
	return path
}

// replace writes a file, which has either its old or its new content at any time.
func replace(path string, data []byte) (err error) {
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
	if err = temp.Chmod(0o644); err != nil {
		return errors.Join(err, temp.Close())
	}
	if err = temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
