package generate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/imports"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/namer"
	"k8s.io/gengo/v2/parser"
	"k8s.io/klog/v2"
)

// A gengoRun runs generators of package gengo over packages that are loaded once. Their programs
// load them once each, which takes most of their time.
//
// gengo is written for programs: it takes the name of the program from os.Args, and ends the
// process at errors. Both are replaced here, so that a process has one run at a time.
type gengoRun struct {
	out   *output
	first *generator.Context
	files map[string][]byte // assembled, by path, not formatted
}

// loadTypes loads packages by their import paths, of which most are found by what found packages
// import.
func loadTypes(ctx context.Context, l goList, found []tagged, inputs []string, out *output) (*gengoRun, error) {
	p := parser.NewWithOptions(parser.Options{BuildTags: []string{gengo.StdBuildTag}})
	if loaded, err := loadInto(ctx, l, p, found, inputs); err != nil {
		return nil, err
	} else if !loaded {
		if err := p.LoadPackages(inputs...); err != nil {
			return nil, plainly(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	first, err := generator.NewContext(p, namer.NameSystems{}, "")
	if err != nil {
		return nil, err
	}
	return &gengoRun{out: out, first: first, files: map[string][]byte{}}, nil
}

// run runs the generator of a program.
func (g *gengoRun) run(program string, names namer.NameSystems, order string, inputs []string, targets func(*generator.Context) []generator.Target) (err error) {
	// A parser fills only one universe of types, so that the context of the first generator is the
	// beginning of all others.
	c := *g.first
	c.Namers, c.Inputs = names, unrepeated(append([]string(nil), inputs...))
	c.Order = nil
	if names[order] != nil { // register-gen names none
		c.Order = (&namer.Orderer{Namer: names[order]}).OrderUniverse(c.Universe)
	}
	c.FileTypes = map[string]generator.FileType{generator.GoFileType: g}

	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{program}
	said := &said{}
	defer said.listen()()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case ended:
			err = errors.New(said.last())
		default:
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", program, err)
		}
		for _, message := range said.messages {
			g.out.warnings = append(g.out.warnings, program+": "+message)
		}
	}()
	all := targets(&c)
	defer func(missing []string) {
		for _, dir := range missing { // gengo makes these, and they stay empty
			if failed := os.Remove(dir); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}(missingDirs(all))
	return c.ExecuteTargets(all)
}

// AssembleFile implements generator.FileType: it keeps the file.
func (g *gengoRun) AssembleFile(f *generator.File, path string) error {
	var b bytes.Buffer
	w := generator.NewErrorTracker(&b)
	generator.NewGoFile().Assemble(w, f)
	g.files[path] = b.Bytes()
	return w.Error()
}

// simplifiable matches formatted code that gofmt -s may simplify: literals in literals of slices
// and maps, a slice up to the length, and a range with a blank variable.
var simplifiable = regexp.MustCompile(`\][\w.*\[\]]*\{|: ?len\(|\b_ :?= range`)

// format formats the generated files as gengo does: goimports, then gofmt -s, here for all at once
// that it may simplify.
func (g *gengoRun) format(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "kapok-generate-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	paths := slices.Collect(maps.Keys(g.files))
	done := make([][]byte, len(paths))
	temp := map[string]string{} // files for gofmt
	for i, path := range paths {
		data, name := g.files[path], filepath.Join(dir, fmt.Sprintf("%d.go", i))
		temp[path] = name
		all.Go(func() error {
			formatted, err := imports.Process("", data, &imports.Options{Comments: true, TabIndent: true, TabWidth: 8, FormatOnly: true})
			if err != nil {
				return fmt.Errorf("format %s: %w", g.out.name(path), err)
			}
			if !simplifiable.Match(formatted) {
				done[i] = formatted
				return nil
			}
			return os.WriteFile(name, formatted, 0o644)
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i, path := range paths {
		if done[i] != nil {
			g.out.put(path, done[i])
			delete(temp, path)
		}
	}
	if len(temp) == 0 {
		return nil
	}
	gofmt := "gofmt"
	if _, err := exec.LookPath(gofmt); err != nil {
		root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("find gofmt: %w", err)
		}
		gofmt = filepath.Join(strings.TrimSpace(string(root)), "bin", gofmt)
	}
	if said, err := exec.CommandContext(ctx, gofmt, "-s", "-w", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("gofmt: %w\n%s", err, said)
	}
	for path, name := range temp {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		g.out.put(path, data)
	}
	return nil
}

// missingDirs returns the directories of targets that do not exist, with their parents, the deepest
// first.
func missingDirs(targets []generator.Target) (all []string) {
	seen := map[string]bool{}
	for _, t := range targets {
		for dir := filepath.Clean(t.Dir()); !seen[dir] && !exists(dir); dir = filepath.Dir(dir) {
			seen[dir] = true
			all = append(all, dir)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return all
}

// ended is the panic in place of the end of the process.
type ended struct{}

// said is what a generator logs. It implements logr.LogSink.
type said struct {
	mu       sync.Mutex
	messages []string
}

// listen receives the log of klog until the returned function is called. klog.Fatal panics with
// ended instead of ending the process.
func (s *said) listen() (stop func()) {
	was := klog.OsExit
	klog.OsExit = func(int) { panic(ended{}) }
	klog.SetLogger(logr.New(s))
	return func() {
		klog.ClearLogger()
		klog.OsExit = was
	}
}

func (s *said) Init(logr.RuntimeInfo)                {}
func (s *said) Enabled(int) bool                     { return true } // klog has filtered
func (s *said) WithValues(...any) logr.LogSink       { return s }
func (s *said) WithName(string) logr.LogSink         { return s }
func (s *said) Info(_ int, message string, _ ...any) { s.add(message) }
func (s *said) Error(err error, message string, _ ...any) {
	if err != nil {
		message += ": " + err.Error()
	}
	s.add(message)
}

func (s *said) add(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, strings.TrimSpace(message))
}

// last removes and returns the last message.
func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.messages) == 0 {
		return "it has ended without an error message"
	}
	message := s.messages[len(s.messages)-1]
	s.messages = s.messages[:len(s.messages)-1]
	return message
}
