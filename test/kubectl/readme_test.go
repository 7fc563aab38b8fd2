package kubectl

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A reader who follows a README of the examples word for word sees what it prints. In a README
//
//   - an indented block is a session in a shell: commands after "$ ", and what they print;
//   - "go run" starts a program that goes on; lines without a command before them are what the last
//     of these prints now;
//   - "..." is anything, and a line of nothing else any number of lines.
//
// Gets and the output of programs are repeated until they match the page.
// What follows the section "Try it" is not tried.
func TestReadmes(t *testing.T) {
	for _, example := range []string{"network", "foo", "at"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", "examples", example, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			steps := readSteps(string(text))
			if len(steps) < 10 {
				t.Fatalf("the README has only %d steps", len(steps))
			}
			newReader(t).followAll(steps)
		})
	}
}

// TestFlagsOfDocument compares the table in docs/flags.md with the flags of kapok up.
func TestFlagsOfDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "flags.md"))
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kapok"), "up", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| flag of `kapok up` |")
	table, _, _ = strings.Cut(table, "\n\n")
	told := regexp.MustCompile("`(?:-v|--([a-z0-9-]+[a-z0-9]))(-?\\.\\.\\.)?[ `=]").FindAllStringSubmatch(table, -1)
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`).FindAllStringSubmatch(string(help), -1)
	if len(told) < 20 || len(flags) < 60 {
		t.Fatalf("%d flags in the table, %d in the help", len(told), len(flags))
	}
	names := func(row []string, flag string) bool {
		return flag == row[1] || row[2] != "" && strings.HasPrefix(flag, row[1]+"-")
	}
	for _, flag := range flags {
		if !slices.ContainsFunc(told, func(row []string) bool { return names(row, flag[1]) }) && flag[1] != "help" && flag[1] != "verbose" {
			t.Errorf("docs/flags.md does not name --%s", flag[1])
		}
	}
	for _, row := range told {
		if row[1] != "" && !slices.ContainsFunc(flags, func(flag []string) bool { return names(row, flag[1]) }) {
			t.Errorf("docs/flags.md names %s, which does not exist", row[0])
		}
	}
}

// TestWebhooksOfReadme follows the section on webhooks in the CronJob's README; the rest of it
// waits for the next minute. It uses other ports than the README.
func TestWebhooksOfReadme(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "cronjob", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err := errors.Join(err, free.Close()); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "--webhook-url", "--metrics-bind-address 0 --health-probe-bind-address 0 --webhook-port "+port+" --webhook-url")
	text = strings.ReplaceAll(text, "127.0.0.1:9443", "127.0.0.1:"+port)
	begin := readSteps(text)[:2] // the server and the definition
	_, section, _ := strings.Cut(text, "\n### Webhooks\n")
	steps := readSteps("\n## Try it\n" + section)
	if len(steps) < 7 {
		t.Fatalf("the section has only %d steps", len(steps))
	}
	newReader(t).followAll(append(begin, steps...))
}

// The sections of a document are followed with a server started as the README says, in an empty
// directory: what commands write, others find there.
func TestDocuments(t *testing.T) {
	for _, d := range []struct {
		file     string
		sections []string
		needs    string // a program that may not be installed
	}{
		{"access.md", []string{"Try it", "Custom resources"}, ""},
		{"extension-servers.md", []string{"Register a server", "When the server is unavailable"}, ""},
		{"getting-started.md", []string{"Your first custom resource", "Built-in kinds"}, ""},
		{"login.md", []string{"A user with a certificate"}, ""},
		{"login.md", []string{"A certificate by request"}, "openssl"},
		{"reading/core-types.md", []string{"Try it"}, "jq"},
		{"reading/custom-resources.md", []string{"Try it"}, "jq"},
		{"reading/sample-controller.md", []string{"Try it"}, ""},
	} {
		t.Run(d.file+"/"+d.sections[0], func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(d.needs); d.needs != "" && err != nil {
				t.Skip(err)
			}
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", d.file))
			if err != nil {
				t.Fatal(err)
			}
			r := newReader(t)
			r.dir = t.TempDir()
			r.env = append(r.env, "HOME="+r.dir, "XDG_DATA_HOME="+t.TempDir())
			r.follow(step{command: "go run ./cmd/kapok up", printed: []string{"...", "export KUBECONFIG=..."}})
			for _, section := range d.sections {
				steps := readSection(string(text), section)
				if len(steps) < 2 {
					t.Fatalf("the section %q has only %d steps", section, len(steps))
				}
				r.followAll(steps)
			}
		})
	}
}

// TestFilesOfDocuments starts a server with each file that a document shows as an example: the
// first block of a section.
func TestFilesOfDocuments(t *testing.T) {
	for _, d := range []struct{ file, section, flags string }{
		{"audit.md", "Policy", "--audit-log-path - --audit-policy-file"},
		{"login.md", "A provider of tokens", "--authentication-config"},
	} {
		t.Run(d.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", d.file))
			if err != nil {
				t.Fatal(err)
			}
			steps := readSection(string(text), d.section)
			if len(steps) == 0 {
				t.Fatalf("there is nothing in the section %q", d.section)
			}
			name := filepath.Join(t.TempDir(), "example.yaml")
			if err := os.WriteFile(name, []byte(strings.Join(steps[0].printed, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			newReader(t).follow(step{
				command: "go run ./cmd/kapok up --in-memory " + d.flags + " " + name,
				printed: []string{"...", "export KUBECONFIG=..."},
			})
		})
	}
}

func newReader(t *testing.T) *reader {
	return &reader{T: t, dir: filepath.Join("..", ".."), env: append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+t.TempDir())}
}

func (r *reader) followAll(steps []step) {
	r.Helper()
	for _, s := range steps {
		r.follow(s)
	}
}

// patience is the time limit for expected output.
const patience = 60 * time.Second

// A step is an optional command, and the lines that are expected then.
type step struct {
	command string
	printed []string
	similar bool // numbers, ages and the like may differ
}

func readSteps(readme string) []step { return readSection(readme, "Try it") }

func readSection(text, name string) []step {
	_, section, _ := strings.Cut(text, "\n## "+name+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return readBlocks(section)
}

// readBlocks returns the steps of the indented blocks of a text.
func readBlocks(text string) (steps []step) {
	inside, document := false, "" // end of the here-document
	for line := range strings.Lines(text) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case !indented:
			inside = false
			continue
		case document != "":
			steps[len(steps)-1].command += "\n" + line
			if line == document {
				document = ""
			}
		case isCommand:
			steps = append(steps, step{command: command})
			_, document, _ = strings.Cut(command, "<<")
		case !inside:
			steps = append(steps, step{printed: []string{line}})
		default:
			last := &steps[len(steps)-1]
			last.printed = append(last.printed, line)
		}
		inside = true
	}
	return steps
}

// pattern matches the expected output. Runs of spaces count as one, because the width of columns
// depends on their contents.
func (s step) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString("(?m)^")
	for _, line := range s.printed {
		if line == "..." {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.Join(strings.Fields(line), " "), "...")
		for i, part := range parts {
			if i > 0 {
				b.WriteString(".*")
			}
			if s.similar {
				b.WriteString(similar(part))
			} else {
				b.WriteString(regexp.QuoteMeta(part))
			}
		}
		b.WriteString(" ?\n")
	}
	return regexp.MustCompile(b.String())
}

var spaces = regexp.MustCompile(`[ \t]+`)

func normalSpaces(s string) string {
	s = spaces.ReplaceAllString(s, " ")
	return strings.ReplaceAll(s, "\n ", "\n")
}

// A reader follows a README.
type reader struct {
	*testing.T
	dir     string // directory of commands
	env     []string
	program *program // the last one that was started
}

func (r *reader) follow(s step) {
	r.Helper()
	rest, isProgram := strings.CutPrefix(s.command, "go run ./")
	switch {
	case isProgram:
		r.program = r.start(rest)
		r.await(s)
	case s.command == "":
		r.await(s)
	default:
		r.try(s)
	}
}

// await waits until the program has printed the expected output.
func (r *reader) await(s step) {
	r.Helper()
	pattern := s.pattern()
	deadline := time.Now().Add(patience)
	for {
		text, changed := r.program.output()
		if at := pattern.FindStringIndex(text); at != nil {
			r.program.forget(at[1])
			break
		}
		select {
		case <-changed:
		case <-time.After(time.Until(deadline)):
			r.Fatalf("the program does not print\n%s\nbut\n%s", strings.Join(s.printed, "\n"), text)
		}
	}
	if name, ok := strings.CutPrefix(r.program.kubeconfig(), "export KUBECONFIG="); ok {
		r.env = append(r.env, "KUBECONFIG="+name)
	}
}

// try runs a command, which must print the output in the README. A command that only reads is
// repeated until it does.
func (r *reader) try(s step) {
	r.Helper()
	looks := strings.HasPrefix(s.command, "kubectl get") || strings.HasPrefix(s.command, "kubectl events")
	pattern := regexp.MustCompile(s.pattern().String() + `\z`)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		cmd := exec.CommandContext(ctx, "sh", "-c", s.command)
		cmd.Dir, cmd.Env = r.dir, r.env
		out, _ := cmd.CombinedOutput() // the README also shows failing commands
		cancel()
		if pattern.MatchString(normalSpaces(string(out))) {
			return
		}
		if !looks || time.Now().After(deadline) {
			r.Fatalf("$ %s\nprints\n%s\nwant\n%s", s.command, out, strings.Join(s.printed, "\n"))
		}
	}
}

// A program runs until the test ends.
type program struct {
	mu      sync.Mutex
	all     bytes.Buffer
	seen    int
	changed chan struct{}
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.all.WriteString(string(b))
}

// output returns the complete lines that the program has printed since the last call of forget, and
// a channel that is closed when there are more.
func (p *program) output() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.all.String()
	return normalSpaces(text[:strings.LastIndex(text, "\n")+1])[p.seen:], p.changed
}

// forget skips the next n characters of the output.
func (p *program) forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen += n
}

// kubeconfig returns the line with the path of the kubeconfig, if there is one.
func (p *program) kubeconfig() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return regexp.MustCompile(`export KUBECONFIG=\S+`).FindString(p.all.String())
}

// start starts a program of this module, which TestMain has built.
func (r *reader) start(commandLine string) *program {
	r.Helper()
	fields := strings.Fields(commandLine)
	name, args := filepath.Base(fields[0]), fields[1:]
	if name == "kapok" {
		args = append(args, "--listen", "127.0.0.1:0") // other servers may run
	}
	p := &program{changed: make(chan struct{})}
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env, p, p
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			r.Errorf("interrupt %s: %v", name, err)
		}
		if err := cmd.Wait(); err != nil {
			r.Errorf("%s: %v\n%s", name, err, p.all.String())
		}
	})
	return p
}
