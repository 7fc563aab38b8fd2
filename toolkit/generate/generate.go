package generate

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
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
	// Args are generators with their options, paths=..., output:..., as controller-gen has them, and
	// patterns of packages, such as ./api/... Default: those with which the Makefile of a project
	// calls controller-gen in its targets manifests and generate, or those of kubebuilder's Makefile.
	Args []string
	// Check leaves all files as they are. The Result has those that would change. The generator
	// validation writes its files nevertheless while it runs, and then they are put back.
	Check bool
	// AllowUnknown makes unknown markers warnings, which are errors otherwise: other programs may read
	// them.
	AllowUnknown bool
}

// A Result lists files, relative to the working directory if they are below it.
type Result struct {
	// Written are the files whose content was not current.
	Written []string
	// Same is the number of files that were current.
	Same int
	// Removed are files of the code generators that ran which they do not generate any more: their
	// types are gone.
	Removed []string
	// Warnings are messages of generators without an error.
	Warnings []string
	// ManifestDirs are the directories with the YAML files of the run, whether these have changed or
	// not.
	ManifestDirs []string
	// Orphans are definitions of a project that controller-gen has made from types that are gone. They
	// are left alone. Only without Options.Args they are known.
	Orphans []string
}

// projectRuns returns the options with which the Makefile of the project in the working directory
// calls controller-gen. Without such a Makefile they are those of kubebuilder's, all in one run.
func projectRuns() ([][]string, error) {
	runs, err := makefileRuns()
	if err != nil {
		return nil, fmt.Errorf("%w; name what to generate, such as crd", err)
	}
	if len(runs) == 0 {
		runs = [][]string{{
			ObjectArg(), "rbac:roleName=manager-role", "crd", "webhook", "paths=./...",
			"output:crd:artifacts:config=" + definitions,
		}}
	}
	return runs, nil
}

// ProjectOption returns the option of a generator, such as crd:allowDangerousTypes=true, that the
// project in the working directory uses; its name if there is no project or if it does not use the
// generator.
func ProjectOption(generator string) string {
	if exists("PROJECT") {
		runs, _ := projectRuns() // kapok generate reports the error
		for _, option := range slices.Concat(runs...) {
			if option == generator || strings.HasPrefix(option, generator+":") {
				return option
			}
		}
	}
	return generator
}

// ObjectArg returns the option for deep copies, with the header of the project if it has one. The
// working directory is the root of the project.
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

// Run runs generators over the packages of the module in the working directory. The error lists
// every problem in the sources, with its position; then no file has changed. If a file cannot be
// written, those before it have changed.
func Run(ctx context.Context, o Options) (*Result, error) {
	defer collectLess()()
	whole := len(o.Args) == 0
	known, runs, dir, err := o.prepare()
	if err != nil {
		return nil, err
	}
	args := slices.Concat(runs...)
	stored := stateFile(dir, append(slices.Clone(args), fmt.Sprint(o.AllowUnknown)))
	env, err := goEnv(ctx)
	if err != nil {
		return nil, err
	}
	before, heads, err := inputsOf(env, dir, args)
	if err != nil {
		return nil, err
	}
	out := newOutput(dir)
	out.allowsUnknown = o.AllowUnknown
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
		for _, run := range runs {
			if err := runAll(ctx, l, known, run, out); err != nil {
				return nil, err
			}
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

// collectLess halves the work of the garbage collector, unless GOGC is set, and returns a function
// that ends that: a run lives for a moment, and most of what it allocates early is used until its
// end.
func collectLess() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(200)
	return func() { debug.SetGCPercent(was) }
}

// prepare returns the options on the command line that exist, those with which generators run, by
// runs, and the working directory.
func (o *Options) prepare() (known *markers.Registry, runs [][]string, dir string, err error) {
	if runs, err = o.runs(); err != nil {
		return nil, nil, "", err
	}
	if known, err = registry(); err != nil {
		return nil, nil, "", err
	}
	if err := checkOptions(known, slices.Concat(runs...)); err != nil {
		return nil, nil, "", err
	}
	if !inModule() {
		return nil, nil, "", errors.New("go.mod file not found in this directory or one above it")
	}
	dir, err = os.Getwd()
	return known, runs, dir, err
}

// runs returns the options with which generators run. Packages may be given without paths=.
func (o *Options) runs() ([][]string, error) {
	var patterns, args []string
	for _, arg := range o.Args {
		if strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "/") {
			patterns = append(patterns, arg)
			continue
		}
		args = append(args, arg)
	}
	isPath := func(arg string) bool { return strings.HasPrefix(arg, "paths=") }
	runs := [][]string{args}
	if len(args) == 0 {
		if !exists("PROJECT") {
			return nil, errors.New("this directory has no PROJECT, so name what to generate, such as object, crd or helpers; kapok generate --help lists all")
		}
		var err error
		if runs, err = projectRuns(); err != nil {
			return nil, err
		}
		if len(patterns) > 0 {
			var all []string
			for _, run := range runs {
				all = append(all, slices.DeleteFunc(run, isPath)...)
			}
			runs = [][]string{unrepeatedInOrder(all)}
		}
	}
	for i, run := range runs {
		switch {
		case len(patterns) > 0:
			runs[i] = append(run, "paths="+strings.Join(patterns, ";"))
		case !slices.ContainsFunc(run, isPath):
			runs[i] = append(run, "paths=./...")
		}
	}
	return runs, nil
}

// unrepeatedInOrder drops repeated texts.
func unrepeatedInOrder(all []string) (once []string) {
	for _, text := range all {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return once
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

// selectsGenerator reports whether an option is a generator of controller-tools, and not a path or
// an output.
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
	return generateAll(ctx, run, files, out)
}

// generateAll runs the generators of a runtime.
func generateAll(ctx context.Context, run *genall.Runtime, files *token.FileSet, out *output) error {
	book, err := newMarkerBook()
	if err != nil {
		return err
	}
	var found []error
	for _, root := range run.Roots {
		found = append(found, errorsOf(root, packages.ListError, packages.UnknownError)...)
	}
	if len(found) > 0 { // generators would only report what follows from these
		return errors.Join(unique(found)...)
	}
	found = append(found, syntaxErrors(run.Roots)...)
	unparsed := len(found) > 0
	unknown := book.unknown(run.Roots, files)
	if out.allowsUnknown {
		for _, err := range unknown {
			out.warnings = append(out.warnings, err.Error())
		}
		unknown = nil
	}
	found = append(found, unknown...)
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
	found = plainer(found)
	book.explain(found, run.Roots, files)
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
