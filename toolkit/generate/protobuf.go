package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/internal/protoc"

	"golang.org/x/tools/go/packages"
	"k8s.io/code-generator/cmd/go-to-protobuf/protobuf"
)

const (
	protobufProgram = "go-to-protobuf"
	protoFile       = "generated.proto"
	messagesFile    = "generated.pb.go"
)

// IsProtobuf reports whether a program is started to be go-to-protobuf.
func IsProtobuf(path string) bool {
	return strings.TrimSuffix(filepath.Base(path), ".exe") == protobufProgram
}

// Protobuf is go-to-protobuf with the environment that protobufs sets. It ends the process after an
// error.
func Protobuf() error {
	g := protobuf.New()
	if err := json.Unmarshal([]byte(os.Getenv(protobufOptions)), g); err != nil {
		return fmt.Errorf("%s: %w", protobufOptions, err)
	}
	protobuf.Run(g)
	return nil
}

// logDate is what package log adds to messages.
var logDate = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)

// protobufOptions is the environment variable with the options of go-to-protobuf as JSON.
const protobufOptions = "KAPOK_GO_TO_PROTOBUF"

// protobufs generates generated.proto and generated.pb.go for the packages with the tag, and the
// tags protobuf of the fields of their types that have none. The generator is a library that writes
// files, runs programs and ends the process after an error. It runs in a process of this program,
// under other names of which it is also the programs that the generator runs.
func (c *codeRun) protobufs(ctx context.Context, header string) (err error) {
	all := c.with("protobuf")
	if len(all) == 0 {
		return nil
	}
	temp, err := os.MkdirTemp("", "kapok-protobuf-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	out, bin := filepath.Join(temp, "out"), filepath.Join(temp, "bin")
	if err := linkPrograms(bin); err != nil {
		return err
	}
	directories := map[string]string{}
	options := map[string]any{"GoHeaderFile": header, "OutputDir": out, "APIMachineryPackages": ""}
	var names, others []string
	for _, p := range all {
		names = append(names, p.path)
		directories[p.path] = p.dir
		at := filepath.Join(out, filepath.FromSlash(p.path))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(p.dir, at); err != nil {
			return fmt.Errorf("protobuf: %w", err)
		}
		undo, failed := keepAll(p.dir)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	var listed []*packages.Package
	for _, p := range c.packages {
		listed = append(listed, p.listed)
	}
	packages.Visit(listed, nil, func(p *packages.Package) {
		if p.Dir != "" && directories[p.PkgPath] == "" && exists(filepath.Join(p.Dir, protoFile)) {
			directories[p.PkgPath] = p.Dir
			others = append(others, "-"+p.PkgPath) // is not generated
		}
	})
	slices.Sort(others)
	options["Packages"] = strings.Join(append(others, names...), ",")
	return c.runProtobuf(ctx, bin, options, directories, all)
}

func (c *codeRun) runProtobuf(ctx context.Context, bin string, options map[string]any, directories map[string]string, all []tagged) error {
	before := map[string][]byte{}
	for _, p := range all {
		files, err := goFiles(p.dir)
		if err != nil {
			return err
		}
		for _, path := range files {
			if before[path], err = os.ReadFile(path); err != nil {
				return err
			}
		}
	}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	dirs, err := json.Marshal(directories)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, programFile(protobufProgram)))
	cmd.Env = append(os.Environ(), protobufOptions+"="+string(text), protoc.Directories+"="+string(dirs), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if said, err := cmd.CombinedOutput(); err != nil {
		message := strings.TrimSpace(logDate.ReplaceAllString(logHeader.ReplaceAllString(string(said), ""), ""))
		if message == "" {
			message = err.Error()
		}
		return fmt.Errorf("%s: %s", protobufProgram, message)
	}
	for _, p := range all {
		files, err := goFiles(p.dir)
		if err != nil {
			return err
		}
		for _, path := range append(files, filepath.Join(p.dir, protoFile)) {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if name := filepath.Base(path); name == protoFile || name == messagesFile || !bytes.Equal(data, before[path]) {
				c.out.put(path, data)
			}
		}
	}
	return nil
}

// linkPrograms makes a directory in which this program has the names of those that it stands in
// for.
func linkPrograms(bin string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, name := range []string{protobufProgram, "protoc", "goimports"} {
		path := filepath.Join(bin, programFile(name))
		if err := os.Symlink(self, path); err != nil {
			if err := os.Link(self, path); err != nil {
				return err
			}
		}
	}
	if _, err := exec.LookPath("gofmt"); err == nil {
		return nil
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find gofmt: %w", err)
	}
	return os.Symlink(filepath.Join(strings.TrimSpace(string(root)), "bin", programFile("gofmt")), filepath.Join(bin, programFile("gofmt")))
}

func programFile(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// goFiles returns the Go files of a package that are no tests.
func goFiles(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return slices.DeleteFunc(all, func(path string) bool { return strings.HasSuffix(path, "_test.go") }), err
}

// keepAll returns a function that restores the files of a package that go-to-protobuf may write.
func keepAll(dir string) (restore func() error, err error) {
	files, err := goFiles(dir)
	if err != nil {
		return nil, err
	}
	var all []func() error
	for _, path := range append(files, filepath.Join(dir, protoFile), filepath.Join(dir, messagesFile)) {
		undo, err := keep(path)
		if err != nil {
			return nil, err
		}
		all = append(all, undo)
	}
	return func() error {
		var errs []error
		for _, undo := range all {
			if err := undo(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}, nil
}
