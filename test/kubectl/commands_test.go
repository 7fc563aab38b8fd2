package kubectl

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A guide is a page of docs whose commands run in the order of the page, in one shell, with an
// empty home and an empty working directory. An indented block is
//
//   - commands for bash, none of which may fail;
//   - a session, if it has a line that begins with "$ ": what commands print is compared, except
//     for numbers, ages and the random ends of names. "..." is as in a README (TestReadmes);
//   - a file, if it is in files;
//   - anything else, if it is in skip.
//
// Programs that run until they are interrupted, such as kapok up, run in the background, until the
// page starts the next one. Blocks with three backticks count only if they are in files.
type guide struct {
	page      string
	needs     []string          // programs that may not be installed
	elsewhere []string          // sections that TestDocuments follows
	before    string            // commands that make what the page takes for granted
	files     map[string]string // names of files, by the first lines of their blocks
	skip      map[string]string // why a block does not run, by its first line
	replace   [][2]string       // a part of commands and files, and what there is instead of it
	after     string            // commands that check the result, and those within sentences
}

// TestGuides runs the commands of pages.
func TestGuides(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pages show data directories and commands of Linux, such as head -c -73")
	}
	for _, g := range guides {
		t.Run(strings.TrimSuffix(g.page, ".md"), func(t *testing.T) {
			t.Parallel()
			for _, program := range append(g.needs, "bash") {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(err)
				}
			}
			g.follow(t)
		})
	}
}

// TestEveryGuide checks that each page with commands is followed, or that there is a reason.
func TestEveryGuide(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "docs")
	var pages []string
	for _, pattern := range []string{"*.md", "reading/*.md"} {
		found, err := filepath.Glob(filepath.Join(docs, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	commands := regexp.MustCompile(`(?m)^    (\$ )?(kapok|kubectl|go) `)
	reasons := maps.Clone(unfollowed)
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := filepath.Rel(docs, path)
		if err != nil {
			t.Fatal(err)
		}
		page = filepath.ToSlash(page)
		followed := slices.ContainsFunc(guides, func(g guide) bool { return g.page == page })
		if commands.Match(text) && !followed && reasons[page] == "" {
			t.Errorf("no test runs the commands of docs/%s: add it to guides", page)
		}
		if !followed {
			delete(reasons, page)
		}
	}
	for page := range reasons {
		t.Errorf("remove %s from unfollowed: it does not exist, or is in guides", page)
	}
}

func (g guide) follow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", g.page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := g.blocks(t, string(text))
	s := newShell(t)
	for _, b := range blocks {
		if b.file != "" {
			if err := os.WriteFile(filepath.Join(s.dir, b.file), []byte(s.ports.Replace(b.text)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.must(g.before)
	ran := 0
	for _, b := range blocks {
		switch {
		case b.file != "":
			continue
		case strings.HasPrefix(b.text, "$ ") || strings.Contains(b.text, "\n$ "):
			for _, step := range readBlocks(indent(b.text)) {
				s.compare(step)
			}
		default:
			s.must("set -o pipefail\n" + b.text)
		}
		ran++
	}
	s.must("set +o pipefail\n" + g.after)
	if ran == 0 && g.after == "" {
		t.Errorf("no block of %s is a command", g.page)
	}
}

// A block of a page is commands, unless it has the name of a file.
type block struct {
	text string
	file string
}

// blocks returns the blocks of a page that run or are files, with its replacements, and reports
// rows of the guide that match nothing.
func (g guide) blocks(t *testing.T, page string) (blocks []block) {
	t.Helper()
	used := map[string]bool{}
	for _, section := range sections(page) {
		name, _, _ := strings.Cut(section, "\n")
		if name = strings.TrimLeft(name, "# "); slices.Contains(g.elsewhere, name) {
			used[name] = true
			continue
		}
		for _, raw := range readCode(section) {
			first, _, _ := strings.Cut(raw.text, "\n")
			b := block{text: raw.text, file: g.files[first]}
			used[first] = true
			if g.skip[first] != "" || raw.fenced && b.file == "" {
				continue
			}
			for _, r := range g.replace {
				if replaced := replaceIn(b.text, r); replaced != b.text {
					used[r[0]], b.text = true, replaced
				}
			}
			blocks = append(blocks, b)
		}
	}
	var rows []string
	for row := range g.files {
		rows = append(rows, row)
	}
	for row := range g.skip {
		rows = append(rows, row)
	}
	for _, r := range g.replace {
		rows = append(rows, r[0])
	}
	for _, row := range append(rows, g.elsewhere...) {
		if !used[row] {
			t.Errorf("%s does not have %q: remove the row from the guide, or adapt it", g.page, row)
		}
	}
	return blocks
}

// replaceIn replaces a part of a block. What a session prints stays as it is.
func replaceIn(text string, r [2]string) string {
	if !strings.Contains(text, "$ ") {
		return strings.ReplaceAll(text, r[0], r[1])
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "$ ") {
			lines[i] = strings.ReplaceAll(line, r[0], r[1])
		}
	}
	return strings.Join(lines, "\n")
}

// sections returns the parts of a page that begin with its headings.
func sections(page string) (parts []string) {
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if len(parts) == 0 || strings.HasPrefix(line, "#") && !fenced {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += line
	}
	return parts
}

// A code is a block of code of a page, without its indentation.
type code struct {
	text   string
	fenced bool
}

func readCode(section string) (all []code) {
	var lines []string
	fence := false
	end := func() {
		if text := strings.Trim(unindent(lines), "\n"); text != "" {
			all = append(all, code{text, fence})
		}
		lines = nil
	}
	for line := range strings.Lines(section) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			fence = !fence
		case fence, strings.HasPrefix(line, "    "), line == "" && lines != nil:
			lines = append(lines, line)
		default:
			end()
		}
	}
	end()
	return all
}

// unindent removes the indentation of the first line from all lines.
func unindent(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	spaces := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimPrefix(line, spaces) + "\n")
	}
	return b.String()
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}

// foreground matches commands that run until they are interrupted.
var foreground = regexp.MustCompile(`(?m)^[ \t]*(kapok (up|console|controllers)\b)`)

// must runs commands that must succeed.
func (s *shell) must(commands string) {
	s.Helper()
	if out, code := s.run("set -e\n" + commands); code != 0 {
		s.Fatalf("%s\n\nfails with code %d:\n%s", commands, code, out)
	}
}

// compare runs a command that must print what the page shows, and may fail, as pages show errors.
// A command that only reads is repeated until it does.
func (s *shell) compare(step step) {
	s.Helper()
	for len(step.printed) > 0 && step.printed[len(step.printed)-1] == "" {
		step.printed = step.printed[:len(step.printed)-1]
	}
	if len(step.printed) == 0 || foreground.MatchString(step.command) {
		s.must(step.command)
		return
	}
	step.similar = true
	pattern := regexp.MustCompile(step.pattern().String() + `\z`)
	looks := regexp.MustCompile(`^kubectl (get|events|top) `).MatchString(step.command)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		out, _ := s.run(step.command)
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		if pattern.MatchString(normalSpaces(out)) {
			return
		}
		if !looks || time.Now().After(deadline) {
			s.Fatalf("$ %s\nprints\n%s\nwant\n%s", step.command, out, strings.Join(step.printed, "\n"))
		}
	}
}

// vary are parts of output that differ between runs.
var vary = regexp.MustCompile(`-[0-9a-f]{8,10}-[a-z0-9]{5}\b|\b([0-9]+[dhms])+\b|[0-9]+`)

// similar returns an expression for texts that differ from this one in numbers and the like.
func similar(text string) string {
	var b strings.Builder
	at := 0
	for _, m := range vary.FindAllStringIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[at:m[0]]))
		switch part := text[m[0]:m[1]]; {
		case part[0] == '-':
			b.WriteString(`-[0-9a-f]+-[a-z0-9]{5}`)
		case strings.ContainsAny(part, "dhms"):
			b.WriteString(`([0-9]+[dhms])+`)
		default:
			b.WriteString(`[0-9]+`)
		}
		at = m[1]
	}
	return b.String() + regexp.QuoteMeta(text[at:])
}
