package corpus

import (
	"fmt"
	"os"
	"strings"
)

// differences maps file to case to reason.
type differences map[string]map[string]string

func (d differences) of(file string) map[string]string {
	if d[file] == nil {
		return map[string]string{}
	}
	return d[file]
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

// indent marks the lines of a page of Markdown that list differences.
const indent = "    "

// parseDifferences reads the lines of the form "file/case: reason" that are indented as code. The rest is for people.
func parseDifferences(text string) (differences, error) {
	d := differences{}
	for i, line := range strings.Split(text, "\n") {
		line, listed := strings.CutPrefix(line, indent)
		if !listed || strings.TrimSpace(line) == "" {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		file, c, ok2 := strings.Cut(name, "/")
		if reason = strings.TrimSpace(reason); !ok || !ok2 || reason == "" {
			return nil, fmt.Errorf("differences, line %d: want \"file/case: reason\", have %q", i+1, line)
		}
		if d[file] == nil {
			d[file] = map[string]string{}
		}
		if d[file][c] != "" {
			return nil, fmt.Errorf("differences, line %d: %s is listed twice", i+1, name)
		}
		d[file][c] = reason
	}
	return d, nil
}
