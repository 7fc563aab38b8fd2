package vet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"os/exec"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"
	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// Run checks the packages that patterns select, by default all of the module in the working
// directory. args may have the generator crd with its options, as for package generate. Of problems
// in the sources that prevent the generation of definitions, it returns those only. The error is
// one that prevents checking.
func Run(ctx context.Context, args []string) ([]generate.Problem, error) {
	if !slices.ContainsFunc(args, func(arg string) bool { return arg == "crd" || strings.HasPrefix(arg, "crd:") }) {
		args = append([]string{generate.ProjectOption("crd")}, args...)
	}
	args = append([]string{"rbac:roleName=manager-role", "webhook"}, args...) // their markers are checked, too
	d, err := generate.DefinitionsOf(ctx, args)
	if d == nil {
		return nil, err
	}
	problems := slices.Concat(misplaced(d), repeated(d), repeatedNames(d))
	if err != nil {
		return sorted(append(problems, problemsOf(err)...)), nil
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
			problems = append(problems, l.problem(f.Name, "", f.Message))
		}
		for _, cause := range f.Causes {
			problems = append(problems, l.problem(f.Name, cause.Field, short(cause.Field)+": "+cause.Message))
		}
	}
	for _, definition := range l.definitions {
		problems = append(problems, l.unreachable(definition)...)
		problems = append(problems, l.contradictions(definition)...)
	}
	return sorted(problems), nil
}

// problemsOf returns the problems that an error of package generate joins.
func problemsOf(err error) []generate.Problem {
	var all []generate.Problem
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	}
	for _, err := range each {
		problem := generate.Problem{Message: err.Error()}
		errors.As(err, &problem)
		all = append(all, problem)
	}
	return all
}

// sorted orders problems by file and line, and drops repeated ones: a definition has several
// versions.
func sorted(problems []generate.Problem) []generate.Problem {
	slices.SortFunc(problems, func(a, b generate.Problem) int {
		return cmp.Or(
			strings.Compare(a.At.Filename, b.At.Filename), a.At.Line-b.At.Line, a.At.Column-b.At.Column,
			strings.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(problems, func(a, b generate.Problem) bool { return a.Error() == b.Error() })
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

// problem returns a problem at the Go field, or the marker, that a path in a definition is from.
func (l *locator) problem(definition, path, message string) generate.Problem {
	if at := l.field(definition, path); at.IsValid() {
		return generate.Problem{At: l.Position(at), Message: message}
	}
	return generate.Problem{At: token.Position{}, Message: definition + ": " + message}
}
