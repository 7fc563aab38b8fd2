package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/kapok-dev/kapok"

// rule forbids imports. Packages are given by their directories below the module, "." for its root;
// "/..." stands for a directory and all below it.
type rule struct {
	of     []string // packages
	but    []string // packages among them that the rule is not about
	never  []string // what they must not import
	remedy string
	// until are imports that are still there, as "package -> package". One that is gone must leave
	// the list.
	until []string
}

var rules = []rule{
	{
		of:     []string{"client/...", "cache/...", "workqueue/...", "controller/...", "manager/...", "webhook/...", "convert/...", "ctrl/..."},
		never:  []string{".", "internal/...", "kapoktest/...", "cmd/..."},
		remedy: "the framework works with any API server: move what both need into a package of its own, outside of internal",
	},
	{
		of:     []string{".", "internal/...", "kapoktest/...", "client/...", "cache/...", "manager/...", "controllers/...", "node/...", "scheduler/...", "toolkit/..."},
		never:  []string{"console"},
		remedy: "only the command serves the console: programs and tests must not link the page",
	},
	{
		of:     []string{"console"},
		never:  []string{".", "internal/...", "cmd/...", "kapoktest/..."},
		remedy: "the console works in front of any API server: pass in what is needed as an option",
	},
	{
		of:     []string{"controllers/..."},
		never:  []string{".", "internal/...", "cmd/..."},
		remedy: "controllers work with any API server: use the framework",
	},
	{
		of:     []string{"internal/..."},
		never:  []string{".", "cmd/...", "kapoktest/...", "controllers/..."},
		remedy: "the root and the command are built on internal packages: pass in what is needed as an option",
	},
	{
		of:     []string{"internal/..."},
		never:  []string{"internal/server"},
		remedy: "internal/server puts the parts together: a part does not know the whole",
	},
	{
		of:     []string{"internal/object/..."},
		never:  []string{"internal/..."},
		but:    []string{"internal/object/jsonpatch"},
		remedy: "an object knows its bytes and metadata only: what knows more belongs to the caller",
	},
	{
		of:     []string{"internal/journal/..."},
		never:  []string{"internal/kinds/...", "internal/crd/...", "internal/resource", "internal/state", "internal/authn/...", "internal/authz/..."},
		remedy: "a journal stores entries of any kind: pass in a function where it has to know one",
	},
	{
		of:     []string{"internal/state"},
		never:  []string{"internal/kinds/...", "internal/crd/...", "internal/resource", "internal/authn/...", "internal/authz/...", "internal/admission/..."},
		remedy: "the state indexes objects of any kind: pass in a function where it has to know one",
	},
	{
		of: []string{"internal/resource"},
		never: []string{"internal/kinds/...", "internal/crd/...", "internal/admission/...", "internal/authn/...", "internal/authz/...", "internal/endpoint/...",
			"internal/fairness", "internal/aggregate", "internal/housekeeping/..."},
		remedy: "the verbs are the same for all kinds and users: give what a kind needs to its definition",
	},
	{
		of:     []string{"internal/authn/...", "internal/authz/...", "internal/admission/...", "internal/kinds/...", "internal/housekeeping/...", "internal/crd/...", "internal/fairness", "internal/schema/..."},
		never:  []string{"internal/endpoint/..."},
		remedy: "the endpoint asks these packages, not the other way round",
	},
	{
		of:     []string{"internal/authn/...", "internal/authz/...", "internal/pki"},
		never:  []string{"internal/resource", "internal/kinds/...", "internal/crd/...", "internal/admission/...", "internal/housekeeping/..."},
		remedy: "who a user is, and what it may do, is decided from the state alone: what writes is housekeeping",
	},
	{
		of:     []string{"internal/authn/..."},
		never:  []string{"internal/authz/..."},
		remedy: "authentication comes before authorization",
	},
	{
		of:     []string{"internal/fairness"},
		never:  []string{"internal/resource", "internal/kinds/...", "internal/crd/...", "internal/admission/...", "internal/housekeeping/..."},
		remedy: "the limiter reads its configuration: what writes it is internal/housekeeping/flowschemas",
	},
	{
		of:     []string{"internal/transport", "internal/schema/..."},
		never:  []string{"internal/authn/...", "internal/authz/...", "internal/resource", "internal/state", "internal/journal/...", "internal/kinds/..."},
		remedy: "connections and schemas know nothing of what the server stores",
	},
	{
		of:     []string{"internal/kinds/..."},
		never:  []string{"internal/housekeeping/..."},
		remedy: "a kind describes its objects: what writes them at the start or later is housekeeping",
	},
}

func TestImports(t *testing.T) {
	imports := importsOf(t, filepath.Join("..", ".."))
	if len(imports["internal/resource"]) == 0 {
		t.Fatal("no imports of internal/resource were found: the test looks at the wrong place")
	}
	for _, r := range rules {
		used := map[string]bool{}
		for _, pkg := range slices.Sorted(maps.Keys(imports)) {
			if !matches(r.of, pkg) || matches(r.but, pkg) {
				continue
			}
			for _, imported := range imports[pkg] {
				if !matches(r.never, imported) || within(pkg, imported) {
					continue
				}
				edge := pkg + " -> " + imported
				if used[edge] = true; !slices.Contains(r.until, edge) {
					t.Errorf("%s: %s", edge, r.remedy)
				}
			}
		}
		for _, edge := range r.until {
			if !used[edge] {
				t.Errorf("%s is gone: take it off the list", edge)
			}
		}
	}
}

// within reports whether both packages lie below the same directory of internal, or of the module.
func within(a, b string) bool {
	top := func(p string) string {
		parts := strings.SplitN(p, "/", 3)
		if parts[0] == "internal" && len(parts) > 1 {
			return parts[0] + "/" + parts[1]
		}
		return parts[0]
	}
	return top(a) == top(b)
}

func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, all := strings.CutSuffix(p, "/...")
		return pkg == below || all && strings.HasPrefix(pkg, below+"/")
	})
}

// importsOf returns what the packages below a directory import of the module, tests left out.
func importsOf(t *testing.T, root string) map[string][]string {
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && notOfTheModule(name, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(rel)
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if imported == module {
				imported = "."
			} else if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
				imported = rest
			} else {
				continue
			}
			if !slices.Contains(imports[pkg], imported) {
				imports[pkg] = append(imports[pkg], imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}
