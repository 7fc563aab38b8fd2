package generate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// A state is what the last successful run has read and written. A run whose inputs and outputs are those
// of the last one has nothing to do.
type state struct {
	// Inputs is a hash of everything from which files are generated.
	Inputs string `json:"inputs"`
	// Outputs are the hashes of all generated files, by path.
	Outputs map[string]string `json:"outputs"`
}

// stateFile is where the state of runs with these arguments in a directory is kept: in the user's cache.
func stateFile(dir string, args []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(dir + "\x00" + strings.Join(args, "\x00")))
	return filepath.Join(cache, "kapok", "generate", hex.EncodeToString(sum[:16])+".json"), nil
}

// readState returns the state of the last run, an empty one if there is none.
func readState(path string) (s state) {
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &s) != nil {
		return state{}
	}
	return s
}

// isCurrent reports whether all outputs are there and unchanged.
func (s *state) isCurrent() bool {
	for path, want := range s.Outputs {
		data, err := os.ReadFile(path)
		if err != nil || hashOf(data) != want {
			return false
		}
	}
	return len(s.Outputs) > 0
}

// keep stores the state after a run.
func (s *state) keep(path string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replace(path, data)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// inputsOf returns a hash of what determines the outputs: this program, the Go command and its settings, the
// Go files of the module and of modules that replace others by a directory, and files that options name.
// Other modules are determined by go.sum.
func inputsOf(ctx context.Context, dir string, args []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, time.Now().Year(), args)
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(h, self, info.Size(), info.ModTime().UnixNano())
	env, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOFLAGS", "GOOS", "GOARCH", "CGO_ENABLED", "GOEXPERIMENT", "GOMOD", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	fmt.Fprintf(h, "%s", env)
	lines := strings.Split(strings.TrimRight(string(env), "\n"), "\n")
	roots, err := roots(lines[len(lines)-2:])
	if err != nil {
		return "", err
	}
	add := func(path string) error {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		fmt.Fprintln(h, path, hashOf(data))
		return err
	}
	for _, root := range roots {
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch name := d.Name(); {
			case err != nil:
				return err
			case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules"):
				return filepath.SkipDir
			case strings.HasSuffix(name, ".go"), name == "go.mod", name == "go.sum", name == "modules.txt":
				return add(path)
			}
			return nil
		}); err != nil {
			return "", err
		}
	}
	for _, path := range append(filesIn(args), filepath.Join(dir, boilerplate)) {
		if err := add(path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// roots returns the directories of the module, of modules that replace others, and of those of a workspace.
func roots(files []string) (all []string, err error) {
	todo := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return file == "" || file == "off" || file == os.DevNull })
	seen := map[string]bool{}
	for len(todo) > 0 {
		file := todo[0]
		todo = todo[1:]
		if seen[file] {
			continue
		}
		seen[file] = true
		dir := filepath.Dir(file)
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the go command will say so
		}
		if err != nil {
			return nil, err
		}
		var replaced []*modfile.Replace
		if filepath.Base(file) == "go.mod" {
			all = append(all, dir)
			mod, err := modfile.ParseLax(file, data, nil)
			if err != nil {
				return nil, err
			}
			replaced = mod.Replace
		} else {
			work, err := modfile.ParseWork(file, data, nil)
			if err != nil {
				return nil, err
			}
			replaced = work.Replace
			for _, use := range work.Use {
				todo = append(todo, filepath.Join(under(dir, use.Path), "go.mod"))
			}
		}
		for _, r := range replaced {
			if r.New.Version == "" {
				todo = append(todo, filepath.Join(under(dir, r.New.Path), "go.mod"))
			}
		}
	}
	return all, nil
}

// under returns a path that may be relative to a directory.
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// filesIn returns the files that options name, such as headerFile="hack/header.txt".
func filesIn(args []string) (all []string) {
	for _, arg := range args {
		for _, word := range strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(`=,;{}"`, r) }) {
			if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
				all = append(all, word)
			}
		}
	}
	return all
}
