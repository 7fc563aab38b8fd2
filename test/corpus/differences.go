package corpus

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// differences are the cases in which a server is known to differ, as a Markdown page lists them.
type differences []difference

// A difference is a line of the page: a case, or a pattern with a * for several cases.
type difference struct {
	file, name string
	reason     string
}

// pattern reports whether a difference is a pattern, of whose cases at least one must differ.
func (d difference) pattern() bool { return strings.Contains(d.name, "*") }

// about reports whether a difference matches a case. Invalid patterns are rejected when the page is
// parsed.
func (d difference) about(name string) bool {
	matches, _ := path.Match(d.name, name)
	return matches
}

// of returns the differences of a file.
func (d differences) of(file string) differences {
	return slices.DeleteFunc(slices.Clone(d), func(d difference) bool { return d.file != file })
}

// find returns the difference of a case, and whether there is one. A line for the case takes
// precedence over a pattern.
func (d differences) find(name string) (found difference, ok bool) {
	for _, d := range d {
		if d.about(name) && (!ok || found.pattern()) {
			found, ok = d, true
		}
	}
	return found, ok
}

func readDifferences(file string) (differences, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseDifferences(string(text))
}

// indent marks the lines of a Markdown page that list differences.
const indent = "    "

// parseDifferences parses the lines "file/case: reason" that are indented as code, and ignores the
// others.
func parseDifferences(text string) (differences, error) {
	var all differences
	for i, line := range strings.Split(text, "\n") {
		line, listed := strings.CutPrefix(line, indent)
		if !listed || strings.TrimSpace(line) == "" {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		file, c, ok2 := strings.Cut(name, "/")
		d := difference{file, c, strings.TrimSpace(reason)}
		if !ok || !ok2 || d.reason == "" {
			return nil, fmt.Errorf("differences, line %d: want \"file/case: reason\", have %q", i+1, line)
		}
		if _, err := path.Match(c, ""); err != nil {
			return nil, fmt.Errorf("differences, line %d: %s: %w", i+1, name, err)
		}
		if slices.ContainsFunc(all, func(other difference) bool { return other.file == d.file && other.name == d.name }) {
			return nil, fmt.Errorf("differences, line %d: %s is listed twice", i+1, name)
		}
		all = append(all, d)
	}
	return all, nil
}
