package generate

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// makefileTargets are the targets of kubebuilder's Makefile that call controller-gen.
var makefileTargets = []string{"manifests", "generate"}

// makefileRuns returns the options with which the Makefile in the working directory calls
// controller-gen in its targets manifests and generate, and in those that these need: a project may
// have changed them. Calls with the same packages are one run. It returns nothing if there is no
// Makefile, or if it does not call controller-gen, and an error if the options depend on more than
// variables.
func makefileRuns() ([][]string, error) {
	data, err := os.ReadFile("Makefile")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := readMakefile(string(data))
	var runs [][]string
	seen := map[string]bool{}
	var visit func(target string) error
	visit = func(target string) error {
		if seen[target] {
			return nil
		}
		seen[target] = true
		for _, needed := range m.needs[target] {
			if err := visit(needed); err != nil {
				return err
			}
		}
		for _, line := range m.recipes[target] {
			options, err := m.controllerGen(line)
			if err != nil {
				return fmt.Errorf("the target %s of the Makefile: %w", target, err)
			}
			runs = addRun(runs, options)
		}
		return nil
	}
	for _, target := range makefileTargets {
		if err := visit(target); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// addRun adds options to the run with the same packages, or as a new one.
func addRun(runs [][]string, options []string) [][]string {
	if len(options) == 0 {
		return runs
	}
	paths := func(options []string) (all []string) {
		for _, option := range options {
			if strings.HasPrefix(option, "paths=") {
				all = append(all, option)
			}
		}
		return all
	}
	for i, run := range runs {
		if slices.Equal(paths(run), paths(options)) {
			for _, option := range options {
				if !slices.Contains(run, option) {
					runs[i] = append(runs[i], option)
				}
			}
			return runs
		}
	}
	return append(runs, options)
}

// A makefile is what matters of one here. Conditions and included files are not read.
type makefile struct {
	variables map[string]string
	needs     map[string][]string // the prerequisites of targets
	recipes   map[string][]string // the lines of targets
}

var (
	assignment = regexp.MustCompile(`^(?:export +|override +)*([A-Za-z0-9_.-]+) *(\?|\+|:{1,3}|!)?= *(.*)$`)
	ruleLine   = regexp.MustCompile(`^([^\t#=:][^#=:]*):([^=].*|)$`)
	reference  = regexp.MustCompile(`\$[({]([^(){}$ ]+)[)}]`)
	yearOfDate = regexp.MustCompile(`\$\(shell +date +['"]?\+%Y['"]?\)`)
)

func readMakefile(text string) *makefile {
	m := &makefile{map[string]string{}, map[string][]string{}, map[string][]string{}}
	var targets []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimRight(line, "\r\n")
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			for _, target := range targets {
				m.recipes[target] = append(m.recipes[target], recipe)
			}
			continue
		}
		plain, _, _ := strings.Cut(line, " #")
		if match := assignment.FindStringSubmatch(plain); match != nil {
			name, value := match[1], strings.TrimSpace(match[3])
			switch was, known := m.variables[name]; {
			case match[2] == "+":
				m.variables[name] = strings.TrimSpace(was + " " + value)
			case match[2] == "!":
				m.variables[name] = "$(shell " + value + ")"
			case match[2] != "?" || !known:
				m.variables[name] = value
			}
			continue
		}
		if match := ruleLine.FindStringSubmatch(plain); match != nil {
			targets = strings.Fields(match[1])
			needed, _, _ := strings.Cut(strings.TrimPrefix(match[2], ":"), ";")
			for _, target := range targets {
				m.needs[target] = append(m.needs[target], strings.Fields(needed)...)
			}
		}
	}
	return m
}

// controllerGen returns the options of a line that calls controller-gen, none if it does not.
func (m *makefile) controllerGen(line string) ([]string, error) {
	program, rest := firstWord(strings.TrimLeft(line, "@-+ "))
	switch name := program[strings.LastIndexByte(program, '/')+1:]; {
	case program == "$(CONTROLLER_GEN)" || program == "${CONTROLLER_GEN}" || name == "controller-gen":
	case program == "go" || program == "$(GO)":
		_, rest = firstWord(rest) // run or tool
		program, rest = firstWord(rest)
		if name, _, _ := strings.Cut(program[strings.LastIndexByte(program, '/')+1:], "@"); name != "controller-gen" {
			return nil, nil
		}
	default:
		return nil, nil
	}
	text, err := m.expand(rest)
	if err != nil {
		return nil, err
	}
	return shellWords(text)
}

// firstWord returns the first word of a line without its quotes, and the rest.
func firstWord(line string) (word, rest string) {
	word, rest, _ = strings.Cut(strings.TrimLeft(line, " \t"), " ")
	return strings.Trim(word, `"'`), rest
}

// expand replaces the variables in a text by their values.
func (m *makefile) expand(text string) (string, error) {
	for range 20 { // references in values
		text = yearOfDate.ReplaceAllString(text, fmt.Sprint(time.Now().Year()))
		next := reference.ReplaceAllStringFunc(text, func(of string) string {
			if value, ok := m.variables[of[2:len(of)-1]]; ok {
				return value
			}
			return of
		})
		if next == text {
			break
		}
		text = next
	}
	if at := strings.Index(strings.ReplaceAll(text, "$$", "  "), "$"); at >= 0 {
		return "", fmt.Errorf("it is not known what %s is", text[at:])
	}
	return strings.ReplaceAll(text, "$$", "$"), nil
}

// shellWords returns the words of a command line up to the end of the command.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	in, quote := false, rune(0)
	end := func() {
		if in {
			words = append(words, word.String())
		}
		word.Reset()
		in = false
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t':
			end()
		case strings.ContainsRune("&|;<>#", r) && (r != '#' || !in):
			end()
			return words, nil
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed in %s", line)
	}
	end()
	return words, nil
}
