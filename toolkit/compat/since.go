package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Since returns the changes of the definitions in directories since a commit, by the names of the
// definitions. The directories are relative to the working directory, and their subdirectories do
// not matter.
func Since(ctx context.Context, commit string, dirs []string) (map[string][]Change, error) {
	if _, err := git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}"); err != nil {
		return nil, fmt.Errorf("git has no commit %q here", commit)
	}
	after, err := read(dirs)
	if err != nil {
		return nil, err
	}
	found := map[string][]Change{}
	for _, dir := range dirs {
		names, err := git(ctx, "ls-tree", "-z", "--name-only", commit, "--", filepath.ToSlash(filepath.Clean(dir))+"/")
		if err != nil {
			return nil, fmt.Errorf("list %s at %s: %w", dir, commit, err)
		}
		for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
			if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
				continue
			}
			data, err := git(ctx, "show", commit+":./"+name)
			if err != nil {
				return nil, fmt.Errorf("read %s at %s: %w", name, commit, err)
			}
			before, err := decode(data)
			if err != nil {
				return nil, fmt.Errorf("decode %s at %s: %w", name, commit, err)
			}
			if before == nil {
				continue
			}
			if now := after[before.Name]; now == nil {
				found[before.Name] = []Change{{What: "the definition is gone"}}
			} else if changes := Definitions(before, now); len(changes) > 0 {
				found[before.Name] = changes
			}
		}
	}
	return found, nil
}

// read returns the definitions in directories, by name.
func read(dirs []string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.y*ml"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			crd, err := decode(data)
			if err != nil {
				return nil, fmt.Errorf("decode %s: %w", name, err)
			}
			if crd != nil {
				all[crd.Name] = crd
			}
		}
	}
	return all, nil
}

// decode returns a definition, nil if the manifest is another one.
func decode(data []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	if !bytes.Contains(data, []byte("CustomResourceDefinition")) {
		return nil, nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		return nil, err
	}
	if crd.Kind != "CustomResourceDefinition" {
		return nil, nil
	}
	return crd, nil
}

func git(ctx context.Context, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "git", args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil && stderr.Len() > 0 {
		return nil, errors.New(strings.TrimSpace(stderr.String()))
	}
	return out, err
}
