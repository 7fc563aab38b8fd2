package generate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/toolkit/internal/sources"

	"golang.org/x/mod/modfile"
)

// A state is what the last successful run has read and written. A run whose inputs and outputs are
// those of the last one has nothing to do.
type state struct {
	// Inputs is a hash of everything from which files are generated.
	Inputs string `json:"inputs"`
	// Outputs are the hashes of all generated files, by path.
	Outputs map[string]string `json:"outputs"`
	// Warnings are those of the run.
	Warnings []string `json:"warnings,omitempty"`
}

// stateFile is where the state of runs with these arguments in a directory is kept: in the user's
// cache. It returns "" if there is no cache, or if the state would not have all inputs.
func stateFile(dir string, args []string) string {
	flags := os.Getenv("GOFLAGS")
	cache, err := os.UserCacheDir()
	if err != nil || strings.Contains(flags, "-modfile") || strings.Contains(flags, "-overlay") {
		return ""
	}
	sum := sha256.Sum256([]byte(dir + "\x00" + strings.Join(args, "\x00")))
	return filepath.Join(cache, "kapok", "generate", hex.EncodeToString(sum[:16])+".json")
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

// keep stores the state after a run, if that is possible: without it the next run does the work
// again.
func (s *state) keep(path string) {
	if data, err := json.Marshal(s); err == nil {
		_ = replace(path, data)
	}
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// inputs are the hashes of what determines the outputs: of files by their paths, and of all else by
// "".
type inputs map[string]string

// hash returns a hash of all inputs.
func (i inputs) hash() string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(i)) {
		fmt.Fprintf(h, "%s\x00%s\x00", path, i[path])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sameBut reports whether inputs are the same, except for some files.
func (i inputs) sameBut(other inputs, except func(path string) bool) bool {
	for _, pair := range [][2]inputs{{i, other}, {other, i}} {
		for path, hash := range pair[0] {
			if pair[1][path] != hash && !except(path) {
				return false
			}
		}
	}
	return true
}

// inputsOf returns what determines the outputs: this program, the go command and its settings, the
// Go files of the module and of modules that replace others by a directory, and files and
// directories that options name. Other modules are determined by go.sum. heads are the same, but of
// Go files only what is before the first declaration: packages are listed again only if these
// change.
func inputsOf(env, dir string, args []string) (all, heads inputs, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(self)
	if err != nil {
		return nil, nil, err
	}
	all = inputs{"": fmt.Sprintln(time.Now().Year(), args, self, info.Size(), info.ModTime().UnixNano(), env)}
	heads = inputs{"": all[""]}
	lines := strings.Split(strings.TrimSuffix(env, "\n"), "\n")
	files := lines[len(lines)-2:]
	roots, err := roots(files)
	if err != nil {
		return nil, nil, err
	}
	add := func(path string) {
		data, err := os.ReadFile(path)
		switch {
		case err == nil:
			all[path] = hashOf(data)
			heads[path] = all[path]
			if strings.HasSuffix(path, ".go") {
				heads[path] = hashOf(sources.Head(data))
			}
		case !errors.Is(err, fs.ErrNotExist):
			all[path], heads[path] = err.Error(), err.Error()
		}
	}
	walk := func(root string, of func(name string) bool) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // errors are inputs
			switch {
			case err != nil:
				all[path], heads[path] = err.Error(), err.Error()
			case d.IsDir() && path != root && (d.Name() == ".git" || d.Name() == "node_modules"):
				return filepath.SkipDir
			case !d.IsDir() && of(d.Name()):
				add(path)
			}
			return nil
		})
	}
	for _, root := range roots {
		if real, err := filepath.EvalSymlinks(root); err == nil {
			root = real // which a walk does not do
		}
		walk(root, func(name string) bool {
			return strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.sum" || name == "modules.txt"
		})
	}
	for _, file := range files {
		add(file)
		add(strings.TrimSuffix(file, ".work") + ".work.sum")
	}
	for _, path := range append(filesIn(args), header("")) {
		if path != "" {
			add(path)
		}
	}
	for _, arg := range args {
		if match := manifestsOption.FindStringSubmatch(arg); match != nil {
			walk(match[1], func(string) bool { return true })
		}
	}
	return all, heads, nil
}

// goEnv returns the settings of the go command. The last two are the files of the module and of the
// workspace.
func goEnv(ctx context.Context) (string, error) {
	env, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOFLAGS", "GOOS", "GOARCH", "CGO_ENABLED", "GOEXPERIMENT", "GOROOT", "GOMODCACHE", "GOMOD", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return string(env), nil
}

// roots returns the directories of the module, of modules that replace others, and of those of a
// workspace.
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
		if err != nil && filepath.Base(file) == "go.mod" && len(all) > 0 {
			all = append(all, dir) // a replacement that the go command will complain of
			continue
		}
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

var (
	// quoted matches texts in quotes in options.
	quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")
	// manifestsOption matches the directory that the generator schemapatch reads.
	manifestsOption = regexp.MustCompile("^schemapatch:(?:.*,)?manifests=[\"`]?([^,\"`]+)")
)

// filesIn returns the files that options name, such as headerFile="hack/header.txt".
func filesIn(args []string) (all []string) {
	for _, arg := range args {
		words := strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune("=,;{}\"`", r) })
		for _, text := range quoted.FindAllString(arg, -1) {
			words = append(words, text[1:len(text)-1])
		}
		for _, word := range words {
			if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
				all = append(all, word)
			}
		}
	}
	return all
}
