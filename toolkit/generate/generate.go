package generate

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// Options configure Run.
type Options struct {
	// Args are generators with their options, paths=..., output:..., as controller-gen has them, and patterns
	// of packages, such as ./api/... Default: those of the Makefile of a project, see [ProjectArgs].
	Args []string
	// Check leaves all files as they are. The Result has those that would change. The generator validation
	// writes its files nevertheless while it runs, and then they are put back.
	Check bool
}

// A Result lists files, relative to the working directory if they are below it.
type Result struct {
	// Written are the files whose content was not current.
	Written []string
	// Same is the number of files that were current.
	Same int
	// Removed are files of the code generators that ran which they do not generate any more: their types
	// are gone.
	Removed []string
	// Warnings are messages of generators without an error.
	Warnings []string
	// ManifestDirs are the directories with the YAML files of the run, whether these have changed or not.
	ManifestDirs []string
	// Orphans are definitions of a project that controller-gen has made from types that are gone. They
	// are left alone. Only without Options.Args they are known.
	Orphans []string
}

// ProjectArgs returns the options with which the Makefile of a kubebuilder project calls
// controller-gen, all in one. The working directory is the root of the project.
func ProjectArgs() []string {
	return []string{
		ObjectArg(), "rbac:roleName=manager-role", "crd", "webhook", "paths=./...",
		"output:crd:artifacts:config=" + definitions,
	}
}

// ObjectArg returns the option for deep copies, with the header of the project if it has one. The working
// directory is the root of the project.
func ObjectArg() string {
	if exists(boilerplate) {
		return fmt.Sprintf("object:headerFile=%q,year=%d", boilerplate, time.Now().Year())
	}
	return "object"
}

// Paths in a project.
const (
	boilerplate = "hack/boilerplate.go.txt"
	definitions = "config/crd/bases"
)

// Run runs generators over the packages of the module in the working directory. The error lists every
// problem in the sources, with its position; then no file has changed. If a file cannot be written,
// those before it have changed.
func Run(ctx context.Context, o Options) (*Result, error) {
	whole := len(o.Args) == 0
	known, args, dir, err := o.prepare()
	if err != nil {
		return nil, err
	}
	stored := stateFile(dir, args)
	env, err := goEnv(ctx)
	if err != nil {
		return nil, err
	}
	before, heads, err := inputsOf(env, dir, args)
	if err != nil {
		return nil, err
	}
	out := newOutput(dir)
	var result *Result
	if last := readState(stored); last.Inputs == before.hash() && last.isCurrent() {
		result = &Result{Same: len(last.Outputs), Warnings: last.Warnings}
		for path := range last.Outputs {
			out.files[path] = nil
		}
	} else {
		l := goList{}
		if stored != "" {
			l.inputs = heads.hash()
		}
		if err := runAll(ctx, l, known, args, out); err != nil {
			return nil, err
		}
		if result, err = out.finish(o.Check); err != nil {
			return result, err
		}
		if stored != "" && !out.toStdout && (!o.Check || len(result.Written)+len(result.Removed) == 0) {
			if after, _, err := inputsOf(env, dir, args); err == nil && before.sameBut(after, out.has) {
				out.state(after, result).keep(stored)
			}
		}
	}
	result.ManifestDirs = out.manifestDirs()
	if whole {
		result.Orphans, err = out.orphans(definitions)
	}
	return result, err
}

// prepare returns the options on the command line that exist, those with which generators run, and the working directory.
func (o *Options) prepare() (known *markers.Registry, args []string, dir string, err error) {
	if args, err = o.args(); err != nil {
		return nil, nil, "", err
	}
	if known, err = registry(); err != nil {
		return nil, nil, "", err
	}
	if err := checkOptions(known, args); err != nil {
		return nil, nil, "", err
	}
	if !inModule() {
		return nil, nil, "", errors.New("go.mod file not found in this directory or one above it")
	}
	dir, err = os.Getwd()
	return known, args, dir, err
}

// args returns the options with which generators run. Packages may be given without paths=.
func (o *Options) args() ([]string, error) {
	var patterns, args []string
	for _, arg := range o.Args {
		if strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "/") {
			patterns = append(patterns, arg)
			continue
		}
		args = append(args, arg)
	}
	if len(args) == 0 {
		if !exists("PROJECT") {
			return nil, errors.New("this directory has no PROJECT, so name what to generate, such as object, crd or helpers; kapok generate --help lists all")
		}
		args = ProjectArgs()
		if len(patterns) > 0 {
			args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "paths=") })
		}
	}
	hasPaths := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "paths=") })
	if len(patterns) == 0 && !hasPaths {
		patterns = []string{"./..."}
	}
	if len(patterns) > 0 {
		args = append(args, "paths="+strings.Join(patterns, ";"))
	}
	return args, nil
}

// inModule reports whether the working directory belongs to a module, as far as is known.
func inModule() bool {
	dir, err := os.Getwd()
	if err != nil {
		return true
	}
	for !exists(filepath.Join(dir, "go.mod")) && !exists(filepath.Join(dir, "go.work")) {
		if dir == filepath.Dir(dir) {
			return false
		}
		dir = filepath.Dir(dir)
	}
	return true
}

// runAll runs the generators that options select.
func runAll(ctx context.Context, l goList, known *markers.Registry, args []string, out *output) error {
	jobs, paths, args, err := codeJobs(known, args)
	if err != nil {
		return err
	}
	if len(jobs) == 0 || slices.ContainsFunc(args, selectsGenerator) {
		if err := runControllerTools(ctx, l, known, args, out); err != nil {
			return err
		}
	}
	if len(jobs) > 0 {
		return runCode(ctx, l, jobs, paths, out)
	}
	return nil
}

// selectsGenerator reports whether an option is a generator of controller-tools, and not a path or an output.
func selectsGenerator(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	name, _, _ = strings.Cut(name, ":")
	return generators()[name] != nil
}

// runControllerTools runs the generators of controller-tools.
func runControllerTools(ctx context.Context, l goList, known *markers.Registry, args []string, out *output) error {
	files := token.NewFileSet()
	run, err := newRuntime(ctx, l, files, known, args)
	if err != nil {
		return plainly(err)
	}
	if err := registerOwn(run.Collector.Registry); err != nil {
		return err
	}
	run.OutputRules = out.collect(run.OutputRules)
	return generateAll(ctx, run, files)
}

// generateAll runs the generators of a runtime.
func generateAll(ctx context.Context, run *genall.Runtime, files *token.FileSet) error {
	var found []error
	for _, root := range run.Roots {
		found = append(found, errorsOf(root, packages.ListError, packages.UnknownError)...)
	}
	if len(found) > 0 { // generators would only report what follows from these
		return errors.Join(unique(found)...)
	}
	found = append(found, syntaxErrors(run.Roots)...)
	unparsed := len(found) > 0
	found = append(found, unknownMarkers(run.Roots, files)...)
	if unparsed {
		return errors.Join(unique(found)...)
	}
	for _, g := range run.Generators {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := run.GenerationContext
		c.OutputRule = run.OutputRules.ForGenerator(g)
		if _, typed := (*g).(genall.NeedsTypeChecking); !typed {
			c.Checker = nil
		}
		generate := (*g).Generate
		if of, ok := (*g).(crd.Generator); ok {
			generate = func(c *genall.GenerationContext) error { return generateDefinitions(c, of) }
		}
		if err := generate(&c); err != nil {
			found = append(found, err)
		}
	}
	seen := map[*loader.Package]bool{}
	var visit func(p *loader.Package)
	visit = func(p *loader.Package) {
		if seen[p] {
			return
		}
		seen[p] = true
		found = append(found, errorsOf(p, packages.UnknownError, packages.ListError, packages.ParseError)...)
		for _, imported := range p.Imports() {
			visit(imported)
		}
	}
	for _, root := range run.Roots {
		visit(root)
	}
	return errors.Join(unique(found)...)
}

// syntaxErrors returns the errors of syntax in packages and what they import.
func syntaxErrors(roots []*loader.Package) (all []error) {
	var of []*packages.Package
	for _, root := range roots {
		of = append(of, root.Package)
	}
	packages.Visit(of, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			if err.Kind == packages.ParseError {
				all = append(all, problemOf(err))
			}
		}
	})
	return all
}

// errorsOf returns the errors of a package that are of the given kinds. Callers do not want type
// errors: the code that is to be generated may be missing.
func errorsOf(p *loader.Package, kinds ...packages.ErrorKind) []error {
	var all []error
	for _, err := range p.Errors {
		if slices.Contains(kinds, err.Kind) {
			all = append(all, problemOf(err))
		}
	}
	return all
}

// plainly returns the error of a load without what package packages says about the go command.
func plainly(err error) error {
	if _, said, found := strings.Cut(err.Error(), "err: exit status 1: stderr: "); found {
		return errors.New(strings.TrimSpace(said))
	}
	return err
}

// exists reports whether a file or directory exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
