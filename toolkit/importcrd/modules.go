package importcrd

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"
)

// modules are the modules that the types import.
var modules = []string{"k8s.io/apimachinery", "k8s.io/apiextensions-apiserver"}

// addModules adds to go.mod what the files import, unless it is there, in the version of this
// program.
func addModules(ctx context.Context, files map[string][]byte) error {
	packages := map[string]bool{}
	for path, source := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil {
				packages[path] = true
			}
		}
	}
	args := []string{"get"}
	for _, module := range modules {
		var wanted []string
		for path := range packages {
			if strings.HasPrefix(path, module+"/") {
				wanted = append(wanted, path+"@"+generate.VersionOf(module))
			}
		}
		if len(wanted) > 0 && exec.CommandContext(ctx, "go", "list", "-m", module).Run() != nil {
			slices.Sort(wanted)
			args = append(args, wanted...) // packages, not the module: go.sum gets what they import
		}
	}
	if len(args) == 1 {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("add %s to go.mod: %w\n%s", strings.Join(args[1:], ", "), err, out)
	}
	return nil
}
