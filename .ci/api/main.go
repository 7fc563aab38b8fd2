// Command api compares the Go packages of this module with those of an older clone, and prints the
// incompatible changes, one a line: go run -C .ci/api . OLD NEW, which are directories.
//
// It compares public packages, except programs, examples and tests, and those types of internal
// packages that a public one names by an alias, such as kapok.AuditOptions.
package main

import (
	"fmt"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

const module = "github.com/kapok-dev/kapok"

// Directories whose packages are not for import.
var (
	programs = regexp.MustCompile(`^/(cmd|examples|test)/`)
	internal = regexp.MustCompile(`/internal(/|$)`)
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: api OLD NEW")
		os.Exit(2)
	}
	lines, err := changes(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
	for _, line := range lines {
		fmt.Println(line)
	}
}

// changes returns the incompatible changes between two clones, sorted.
func changes(before, after string) (lines []string, err error) {
	older, err := load(before)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", before, err)
	}
	newer, err := load(after)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", after, err)
	}
	aliased := aliases(older)
	for path, old := range older {
		now, ok := newer[path]
		switch {
		case !ok && !internal.MatchString(path):
			lines = append(lines, fmt.Sprintf("%s: removed", old.Path()))
		case ok:
			for _, c := range apidiff.Changes(old, now).Changes {
				if !c.Compatible && (!internal.MatchString(path) || concerns(c.Message, path, aliased)) {
					lines = append(lines, old.Path()+"."+c.Message)
				}
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// load returns the packages of a clone by their paths below the module.
func load(dir string) (map[string]*types.Package, error) {
	listed, err := packages.Load(&packages.Config{Mode: packages.NeedName, Dir: dir}, "./...")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range listed {
		if !programs.MatchString(strings.TrimPrefix(p.PkgPath, module)) {
			paths = append(paths, p.PkgPath)
		}
	}
	const mode = packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: dir}, paths...)
	if err != nil {
		return nil, err
	}
	all := map[string]*types.Package{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		all[strings.TrimPrefix(p.PkgPath, module)] = p.Types
	}
	return all, nil
}

// aliases returns the types of internal packages that public packages name, as PATH.TYPE.
func aliases(all map[string]*types.Package) map[string]bool {
	found := map[string]bool{}
	for path, p := range all {
		if internal.MatchString(path) {
			continue
		}
		for _, name := range p.Scope().Names() {
			o, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok || !o.Exported() || !o.IsAlias() {
				continue
			}
			if named, ok := types.Unalias(o.Type()).(*types.Named); ok && named.Obj().Pkg() != nil {
				of := strings.TrimPrefix(named.Obj().Pkg().Path(), module)
				found[of+"."+named.Obj().Name()] = true
			}
		}
	}
	return found
}

// concerns reports whether a message, which starts with the name of what has changed, is about an
// aliased type: Options.Dir, (*Options).Validate.
func concerns(message, path string, aliased map[string]bool) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(message, "(*"), ":")
	name = strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == ')' || r == '[' })[0]
	return aliased[path+"."+name]
}
