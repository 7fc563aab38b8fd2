package generate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

const (
	validationFile    = "zz_generated.validations.go"
	validationProgram = "validation-gen"
)

// What klog and go run add to the messages of a program.
var (
	logHeader  = regexp.MustCompile(`(?m)^[IWEF][0-9]{4} [0-9:.]+ +[0-9]+ [^ ]+\.go:[0-9]+\] `)
	exitStatus = regexp.MustCompile(`(?m)^exit status [0-9]+$`)
)

// validations generates the validation of declarative markers (+k8s:minLength and others). Its
// generator is no library but a program, which the go command builds and caches.
func (c *codeRun) validations(ctx context.Context, header string, lint []string) (err error) {
	for _, p := range c.packages {
		c.out.owns(validationProgram, filepath.Join(p.dir, validationFile))
	}
	all := c.with("validation")
	if len(all) == 0 {
		return nil
	}
	args := []string{"run", codeGenerator + "/cmd/" + validationProgram + "@" + VersionOf(codeGenerator), "--output-file", validationFile}
	for _, pkg := range readOnly() {
		args = append(args, "--readonly-pkg", pkg)
	}
	if len(lint) > 0 {
		args = append(args, "--lint-rules", strings.Join(lint, ","))
	}
	if header != "" {
		args = append(args, "--go-header-file", header)
	}
	for _, p := range all {
		args = append(args, p.path)
		// The program writes its files. They are put back, and written with all others.
		undo, failed := keep(filepath.Join(p.dir, validationFile))
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	if said, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		text := strings.TrimSpace(exitStatus.ReplaceAllString(logHeader.ReplaceAllString(string(said), ""), ""))
		if text == "" {
			text = err.Error()
		}
		return fmt.Errorf("%s: %s", validationProgram, text)
	}
	for _, p := range all {
		path := filepath.Join(p.dir, validationFile)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // there is nothing to validate
		}
		if err != nil {
			return err
		}
		c.out.put(path, data)
	}
	return nil
}

// keep returns a function that restores a file.
func keep(path string) (restore func() error, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error {
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}, nil
	}
	return func() error { return os.WriteFile(path, data, 0o644) }, err
}

// codeGenerator is the module of the code generators.
const codeGenerator = "k8s.io/code-generator"

// VersionOf returns the version of a module of which this program is built.
func VersionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "latest"
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "latest"
}
