package scaffold

import (
	"fmt"
	"go/version"
	"os"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// raise makes a go.mod file require at least the versions, of Go and of modules, that another one
// does.
func raise(name string, other []byte) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	here, err := modfile.Parse(name, data, nil)
	if err != nil {
		return err
	}
	newer, err := modfile.Parse("go.mod of the scaffolds", other, nil)
	if err != nil {
		return err
	}
	if newer.Go != nil && (here.Go == nil || version.Compare("go"+here.Go.Version, "go"+newer.Go.Version) < 0) {
		if err := here.AddGoStmt(newer.Go.Version); err != nil {
			return fmt.Errorf("set the version of Go in %s: %w", name, err)
		}
	}
	required := map[string]string{}
	for _, r := range here.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range newer.Require {
		if has, ok := required[r.Mod.Path]; r.Indirect && !ok || ok && semver.Compare(has, r.Mod.Version) >= 0 {
			continue
		}
		if err := here.AddRequire(r.Mod.Path, r.Mod.Version); err != nil {
			return fmt.Errorf("require %s in %s: %w", r.Mod, name, err)
		}
	}
	here.Cleanup()
	after, err := here.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(name, after, 0o644)
}

// requires reports whether a go.mod file requires a module itself.
func requires(mod []byte, path string) bool {
	file, err := modfile.ParseLax("go.mod", mod, nil)
	return err == nil && slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == path })
}
