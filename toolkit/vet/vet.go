package vet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"
	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// Run checks the packages that patterns select, by default all of the module in the working directory. args may have the
// generator crd with its options, as for package generate. Each problem is a line that begins with its position. The error is
// one that prevents checking.
func Run(ctx context.Context, args []string) ([]string, error) {
	if !slices.ContainsFunc(args, func(arg string) bool { return arg == "crd" || strings.HasPrefix(arg, "crd:") }) {
		args = append([]string{"crd"}, args...)
	}
	args = append([]string{"rbac:roleName=manager-role", "webhook"}, args...) // their markers are checked, too
	d, err := generate.DefinitionsOf(ctx, args)
	if d == nil {
		return nil, err
	}
	problems := misplaced(d)
	if err != nil {
		return sorted(append(problems, strings.Split(err.Error(), "\n")...)), nil
	}
	if len(d.YAML) == 0 {
		return sorted(problems), nil
	}
	findings, err := check(ctx, d.YAML)
	if err != nil {
		return nil, err
	}
	l := newLocator(d)
	for _, f := range findings {
		if len(f.Causes) == 0 {
			problems = append(problems, fmt.Sprintf("%s: %s", l.definition(f.Name), f.Message))
		}
		for _, cause := range f.Causes {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", l.field(f.Name, cause.Field), short(cause.Field), cause.Message))
		}
	}
	return sorted(problems), nil
}

// sorted orders problems by file and line, and drops repeated ones: a definition has several versions.
func sorted(problems []string) []string {
	slices.SortFunc(problems, func(a, b string) int {
		fileA, lineA := place(a)
		fileB, lineB := place(b)
		return cmp.Or(strings.Compare(fileA, fileB), lineA-lineB, strings.Compare(a, b))
	})
	return slices.Compact(problems)
}

// place returns the file and the line with which a problem begins.
func place(problem string) (file string, line int) {
	file, rest, _ := strings.Cut(problem, ":")
	_, _ = fmt.Sscanf(rest, "%d", &line) // 0 without a position
	return file, line
}

// short returns a path in a definition without what all have.
func short(path string) string {
	if _, rest, found := strings.Cut(path, "openAPIV3Schema."); found {
		return rest
	}
	return path
}

// A finding is what kapok check prints.
type finding struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Causes  []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"causes"`
}

// check checks definitions by the program kapok.
func check(ctx context.Context, definitions []byte) ([]finding, error) {
	program, err := front.Program()
	if err != nil {
		return nil, fmt.Errorf("check definitions: %w", err)
	}
	c := exec.CommandContext(ctx, program, "check", "-f", "-", "-o", "json")
	var stderr bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(definitions), &stderr
	out, err := c.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("run kapok check: %w", err)
	}
	var findings []finding
	if err := json.Unmarshal(out, &findings); err != nil {
		return nil, fmt.Errorf("kapok check: %s", cmp.Or(strings.TrimSpace(stderr.String()), err.Error()))
	}
	return findings, nil
}
