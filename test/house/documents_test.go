package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	inline = regexp.MustCompile("`[^`\n]+`")
	code   = regexp.MustCompile("(?ms:^```.*?^```$)|`[^`\n]+`|(?m:^    .*$)")
)

// TestLinks follows the links of all documents to files of the module, and to their headings.
func TestLinks(t *testing.T) {
	documents := markdown(t)
	if len(documents) < 20 {
		t.Fatalf("only %d documents were found: the test looks at the wrong place", len(documents))
	}
	for name, text := range documents {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, match[1])
				continue
			}
			if other, ok := documents[file]; ok && anchor != "" && !slices.Contains(anchors(other), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", name, match[1], file)
			}
		}
	}
}

// markdown returns the documents of the module by their paths.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	documents := map[string]string{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		documents[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are the names of a document's headings in links, as GitHub makes them.
func anchors(text string) (names []string) {
	for line := range strings.Lines(text) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// translation ends the names of documents in Chinese.
const translation = ".zh-CN.md"

// TestTranslationsShowTheSame compares the commands, links and figures of documents with those of
// their Chinese versions.
func TestTranslationsShowTheSame(t *testing.T) {
	documents := markdown(t)
	pairs := 0
	for name := range documents {
		original, ok := strings.CutSuffix(name, translation)
		if !ok {
			continue
		}
		pairs++
		original += ".md"
		if documents[original] == "" {
			t.Errorf("%s is the translation of %s, which does not exist", name, original)
			continue
		}
		english, chinese := shown(documents, original), shown(documents, name)
		if len(english) < 20 {
			t.Errorf("only %d commands and links were found in %s", len(english), original)
		}
		for _, one := range english {
			if !slices.Contains(chinese, one) {
				t.Errorf("%s lacks %s", name, one)
			}
		}
		for _, one := range chinese {
			if !slices.Contains(english, one) {
				t.Errorf("%s lacks %s", original, one)
			}
		}
	}
	if pairs < 3 {
		t.Errorf("only %d translations were found", pairs)
	}
}

// shown returns the lines of code of a document, its code within lines, and what it links to.
func shown(documents map[string]string, name string) (all []string) {
	for line := range strings.Lines(documents[name]) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			all = append(all, strings.TrimSpace(code))
			continue
		}
		all = append(all, inline.FindAllString(line, -1)...)
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			all = append(all, untranslated(documents, name, match[1]))
		}
	}
	return all
}

// untranslated returns a link of a document as it is in English: a translation links to
// translations, and to the same headings by other names, so they are named by their numbers.
func untranslated(documents map[string]string, name, link string) string {
	target, anchor, _ := strings.Cut(link, "#")
	if text, ok := documents[filepath.Join(filepath.Dir(name), target)]; ok && anchor != "" {
		anchor = fmt.Sprintf("%d", slices.Index(anchors(text), anchor)+1)
	}
	if base, ok := strings.CutSuffix(target, translation); ok {
		target = base + ".md"
	}
	return target + "#" + anchor
}
