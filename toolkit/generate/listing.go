package generate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"k8s.io/gengo/v2"
)

// A goList lists packages by the go command, and keeps its answers in the user's cache. An answer
// holds as long as what the go command has read is the same: its settings, go.mod and the like, and
// the beginnings of the Go files up to the imports.
type goList struct {
	inputs string // a hash of all that; "": answers are not kept
}

// list lists the packages that patterns match in a directory, with their imports and those of
// these.
func (l goList) list(ctx context.Context, dir string, patterns []string) ([]*packages.Package, error) {
	stored := ""
	if cache, err := os.UserCacheDir(); err == nil && l.inputs != "" {
		stored = filepath.Join(cache, "kapok", "generate", hashOf([]byte(dir + "\x00" + strings.Join(patterns, "\x00")))[:32]+".list.json")
		if roots := readListing(stored, l.inputs); roots != nil {
			return roots, nil
		}
	}
	roots, err := packages.Load(&packages.Config{
		Context:    ctx,
		Dir:        dir,
		Mode:       packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
		BuildFlags: []string{"-tags=" + gengo.StdBuildTag},
	}, patterns...)
	if err != nil {
		return nil, plainly(err)
	}
	if stored != "" {
		keepListing(stored, l.inputs, roots)
	}
	return roots, nil
}

// A listing is an answer of the go command, with the inputs that it depends on.
type listing struct {
	Inputs   string          `json:"inputs"`
	Roots    []int           `json:"roots"`    // indexes of Packages
	Packages []listedPackage `json:"packages"` // each after those that it imports
}

type listedPackage struct {
	ID, Name, Path, Dir string
	Files               []string // relative to Dir if they are in it
	Imports             map[string]int
	Module              *listedModule
}

type listedModule struct {
	Path, Version string
	Replace       *listedModule
}

// readListing returns the packages of a stored listing; nil if there is none for the inputs, or if
// a file is gone.
func readListing(path, inputs string) (roots []*packages.Package) {
	data, err := os.ReadFile(path)
	var l listing
	if err != nil || json.Unmarshal(data, &l) != nil || l.Inputs != inputs {
		return nil
	}
	all := make([]*packages.Package, len(l.Packages))
	for i, of := range l.Packages {
		p := &packages.Package{ID: of.ID, Name: of.Name, PkgPath: of.Path, Dir: of.Dir, Imports: map[string]*packages.Package{}, Module: of.Module.module()}
		for _, file := range of.Files {
			p.GoFiles = append(p.GoFiles, under(of.Dir, file))
		}
		if len(p.GoFiles) > 0 && !exists(p.GoFiles[0]) { // the cache of modules has been cleaned
			return nil
		}
		for name, at := range of.Imports {
			if at < 0 || at >= i {
				return nil
			}
			p.Imports[name] = all[at]
		}
		all[i] = p
	}
	for _, at := range l.Roots {
		if at < 0 || at >= len(all) {
			return nil
		}
		roots = append(roots, all[at])
	}
	return roots
}

// keepListing stores a listing without errors, if that is possible.
func keepListing(path, inputs string, roots []*packages.Package) {
	l := listing{Inputs: inputs}
	at := map[*packages.Package]int{}
	failed := false
	packages.Visit(roots, nil, func(p *packages.Package) {
		failed = failed || len(p.Errors) > 0
		of := listedPackage{ID: p.ID, Name: p.Name, Path: p.PkgPath, Dir: p.Dir, Imports: map[string]int{}, Module: moduleOf(p.Module)}
		for _, file := range p.GoFiles {
			if name, err := filepath.Rel(p.Dir, file); err == nil && p.Dir != "" && !strings.HasPrefix(name, "..") {
				file = name
			}
			of.Files = append(of.Files, file)
		}
		for name, imported := range p.Imports {
			of.Imports[name] = at[imported]
		}
		at[p] = len(l.Packages)
		l.Packages = append(l.Packages, of)
	})
	for _, p := range roots {
		l.Roots = append(l.Roots, at[p])
	}
	if data, err := json.Marshal(l); err == nil && !failed && len(roots) > 0 {
		_ = replace(path, data) // without it the next run asks the go command again
	}
}

func (m *listedModule) module() *packages.Module {
	if m == nil {
		return nil
	}
	return &packages.Module{Path: m.Path, Version: m.Version, Replace: m.Replace.module()}
}

func moduleOf(m *packages.Module) *listedModule {
	if m == nil {
		return nil
	}
	return &listedModule{m.Path, m.Version, moduleOf(m.Replace)}
}

// listRoots lists packages as controller-tools does: paths of directories from these directories,
// one by one, and if they end with "...", those of modules below, too. Packages of one module
// import packages of another as they are listed there.
func (l goList) listRoots(ctx context.Context, paths []string) (roots []*packages.Package, err error) {
	type query struct {
		dir      string
		patterns []string
	}
	var queries []query
	if named := slices.DeleteFunc(slices.Clone(paths), isDirPattern); len(named) > 0 {
		queries = append(queries, query{"", named})
	}
	var nested []query
	for _, path := range paths {
		if !isDirPattern(path) {
			continue
		}
		dir, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if filepath.Base(dir) != "..." {
			queries = append(queries, query{dir, []string{"."}})
			continue
		}
		dir = filepath.Dir(dir)
		queries = append(queries, query{dir, []string{"./..."}})
		err = filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && entry.Name() == "go.mod" && filepath.Dir(file) != dir {
				nested = append(nested, query{filepath.Dir(file), []string{"./..."}})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for _, q := range append(queries, nested...) {
		found, err := l.list(ctx, q.dir, q.patterns)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !seen[p.ID] {
				seen[p.ID] = true
				roots = append(roots, p)
			}
		}
	}
	byID := map[string]*packages.Package{}
	for _, root := range roots {
		byID[root.ID] = root
	}
	packages.Visit(roots, func(p *packages.Package) bool {
		for path, imported := range p.Imports {
			if root := byID[imported.ID]; root != nil {
				p.Imports[path] = root
			}
		}
		return true
	}, nil)
	return roots, nil
}

// isDirPattern reports whether a pattern is of directories, not of import paths.
func isDirPattern(path string) bool { return strings.HasPrefix(path, ".") || filepath.IsAbs(path) }
