package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	goTest   = regexp.MustCompile("(?:cd (\\S+) && )?go test ([^`#\n]*)")
	word     = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
	function = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	flags    = regexp.MustCompile(`flag\.\w+\(\s*(?:&\w+, )?"([^"]+)"`)
)

// ofGo are the flags of go test itself, and whether a value follows.
var ofGo = map[string]bool{
	"C": true, "args": false, "bench": true, "benchmem": false, "benchtime": true, "c": false, "count": true, "cpuprofile": true, "o": true, "parallel": true, "race": false, "run": true,
	"short": false, "tags": true, "timeout": true, "v": false,
}

// TestCommandsOfTests checks that the tests, benchmarks and flags exist that documents pass to go
// test: most of these commands take minutes, and no test runs them.
func TestCommandsOfTests(t *testing.T) {
	checked := 0
	for name, text := range markdown(t) {
		base := filepath.Join("..", "..")
		if _, err := os.Stat(filepath.Join(filepath.Dir(name), "go.mod")); err == nil {
			base = filepath.Dir(name)
		}
		for _, match := range goTest.FindAllStringSubmatch(text, -1) {
			command := readGoTest(word.FindAllString(match[2], -1))
			for _, pkg := range command.packages {
				dir := filepath.Join(base, match[1], command.dir, pkg)
				paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				if len(paths) == 0 {
					continue // of a project of the user
				}
				var source strings.Builder
				for _, path := range paths {
					data, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					source.Write(data)
				}
				checked++
				for _, missing := range command.missing(source.String()) {
					t.Errorf("%s: %s has no %s: %s", name, dir, missing, match[0])
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d commands were found: the test looks at the wrong place", checked)
	}
}

// A testCommand has the arguments of go test.
type testCommand struct {
	dir      string   // of -C
	patterns []string // of -run and -bench
	flags    []string // those of the package
	packages []string
}

func readGoTest(args []string) (c testCommand) {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		name, _, _ = strings.Cut(name, "=")
		value, known := ofGo[name]
		switch {
		case !isFlag && (args[i] == "." || strings.HasPrefix(args[i], "./")):
			c.packages = append(c.packages, args[i])
		case args[i] == "PACKAGE":
			return testCommand{} // any
		case isFlag && !known:
			c.flags = append(c.flags, name)
		case isFlag && value && i+1 < len(args):
			i++
			switch operand := strings.Trim(args[i], `'"`); name {
			case "C":
				c.dir = operand
			case "run", "bench":
				c.patterns = append(c.patterns, operand)
			}
		}
	}
	if len(c.packages) == 0 {
		c.packages = []string{"."}
	}
	return c
}

// missing returns what the source of a package does not have.
func (c testCommand) missing(source string) (all []string) {
	var names []string
	for _, m := range function.FindAllStringSubmatch(source, -1) {
		names = append(names, m[1])
	}
	for _, pattern := range c.patterns {
		pattern, _, _ = strings.Cut(pattern, "/") // the rest selects within the test
		if slices.Contains([]string{"^$", "NONE", "xxx"}, pattern) {
			continue
		}
		if expression, err := regexp.Compile(pattern); err != nil || !slices.ContainsFunc(names, expression.MatchString) {
			all = append(all, "test or benchmark "+pattern)
		}
	}
	for _, name := range c.flags {
		if !slices.ContainsFunc(flags.FindAllStringSubmatch(source, -1), func(m []string) bool { return m[1] == name }) {
			all = append(all, "flag -"+name)
		}
	}
	return all
}
