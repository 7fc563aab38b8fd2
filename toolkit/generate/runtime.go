package generate

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"reflect"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/internal/sources"

	"golang.org/x/tools/go/packages"
	"k8s.io/gengo/v2"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// newRuntime returns the generators of controller-tools that options select, with the packages to
// run over and the rules of output, as genall.FromOptionsWithConfig does. controller-tools has the
// go command list all packages twice, parses all packages that a type mentions with their bodies of
// functions, and checks all of their declarations; here packages are listed once, and package
// sources loads them.
func newRuntime(ctx context.Context, l goList, files *token.FileSet, known *markers.Registry, args []string) (*genall.Runtime, error) {
	selected, err := selectedBy(known, args)
	if err != nil {
		return nil, err
	}
	run := &genall.Runtime{Generators: selected.generators, OutputRules: selected.rules}
	run.Collector, run.InputRule = &markers.Collector{Registry: &markers.Registry{}}, genall.InputFromFileSystem
	if err := run.Generators.RegisterMarkers(run.Collector.Registry); err != nil {
		return nil, err
	}
	listed, err := l.listRoots(ctx, selected.paths)
	if err != nil {
		return nil, err
	}
	if len(listed) == 0 {
		return nil, errors.New("no packages match the option paths")
	}
	roots, ok := rootsFrom(files, listed)
	if ok {
		err = sources.LoadShapes(files, listed)
	}
	switch {
	case !ok || errors.Is(err, sources.ErrCgo):
		run.Checker = &loader.TypeChecker{NodeFilters: selected.generators.CheckFilters()}
		config := &packages.Config{Context: ctx, Fset: files, BuildFlags: []string{"-tags=" + gengo.StdBuildTag}}
		run.Roots, err = loader.LoadRootsWithConfig(config, selected.paths...)
		return run, err
	case err != nil:
		return nil, err
	}
	// All that the roots refer to is checked.
	run.Checker = &loader.TypeChecker{NodeFilters: []loader.NodeFilter{func(ast.Node) bool { return false }}}
	run.Roots = roots
	return run, nil
}

// rootsFrom returns packages as those of controller-tools, which cannot be made outside of its
// loader: a field is set by reflection. It returns false if a version of controller-tools has other
// fields, and then controller-tools loads the packages.
func rootsFrom(files *token.FileSet, listed []*packages.Package) (roots []*loader.Package, ok bool) {
	of, ok := reflect.TypeFor[loader.Package]().FieldByName("loader")
	if !ok || of.Type.Kind() != reflect.Pointer || of.Type.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	shared := reflect.New(of.Type.Elem())
	config, ok := field[*packages.Config](shared.Elem(), "cfg")
	if !ok {
		return nil, false
	}
	known, ok := field[map[*packages.Package]*loader.Package](shared.Elem(), "packages")
	if !ok {
		return nil, false
	}
	*config, *known = &packages.Config{Fset: files}, map[*packages.Package]*loader.Package{}
	for _, p := range listed {
		root := &loader.Package{Package: p}
		settable(reflect.ValueOf(root).Elem().FieldByIndex(of.Index)).Set(shared)
		(*known)[p] = root
		roots = append(roots, root)
	}
	packages.Visit(listed, nil, func(p *packages.Package) { p.CompiledGoFiles = p.GoFiles })
	return roots, true
}

// A selection is what options of a command line select.
type selection struct {
	generators genall.Generators
	rules      genall.OutputRules
	paths      []string
}

// selectedBy reads the options of a command line. Without a rule for all output, generators write
// to config/NAME.
func selectedBy(known *markers.Registry, args []string) (*selection, error) {
	s := &selection{rules: genall.OutputRules{ByGenerator: map[*genall.Generator]genall.OutputRule{}}}
	byName := map[string]*genall.Generator{}
	rules := map[string]genall.OutputRule{}
	for _, arg := range args {
		definition := known.Lookup("+"+arg, markers.DescribesPackage)
		if definition == nil {
			return nil, fmt.Errorf("unknown option %q", arg)
		}
		value, err := definition.Parse("+" + arg)
		if err != nil {
			return nil, fmt.Errorf("option %s: %w", arg, err)
		}
		switch v := value.(type) {
		case genall.Generator:
			if byName[definition.Name] != nil {
				return nil, fmt.Errorf("the generator %s is selected twice", definition.Name)
			}
			byName[definition.Name] = &v
			s.generators = append(s.generators, &v)
		case genall.OutputRule:
			// output:FORM, or output:GENERATOR:FORM
			if _, of, _ := strings.Cut(definition.Name, ":"); strings.Contains(of, ":") {
				name, _, _ := strings.Cut(of, ":")
				rules[name] = v
			} else {
				s.rules.Default = v
			}
		case genall.InputPaths:
			s.paths = append(s.paths, v...)
		default:
			return nil, fmt.Errorf("option %s does not belong to generators of controller-gen", arg)
		}
	}
	if len(s.generators) == 0 {
		return nil, errors.New("no generator is selected: name one or more of " + strings.Join(names(), ", "))
	}
	for name, rule := range rules {
		g := byName[name]
		if g == nil {
			return nil, fmt.Errorf("option output:%s: the generator %s is not selected", name, name)
		}
		s.rules.ByGenerator[g] = rule
	}
	if s.rules.Default == nil {
		all := genall.DirectoryPerGenerator("config", byName)
		maps.Copy(all.ByGenerator, s.rules.ByGenerator)
		s.rules = all
	}
	return s, nil
}
