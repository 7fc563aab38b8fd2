package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var settings = options{version: "v1.0.0", source: "https://example.com/kapok", commit: "0123456789abcdef"}

// clone is a small repository. Tests change single files.
func clone(changes map[string]string) fstest.MapFS {
	files := map[string]string{
		icon:              "<svg/>",
		"LICENSE":         "Apache",
		"cmd/kapok/up.go": "package main",
		"README.md":       "# Kapok\n\nThe API.\n\nEnglish | [中文](README.zh-CN.md)\n\n[Start](docs/start.md#first-step), [license](LICENSE), [changes](CHANGELOG.md)\n",
		"README.zh-CN.md": "# Kapok\n\n[English](README.md) | 中文\n\n[开始](docs/start.md)\n",
		"CHANGELOG.md":    "# Changelog\n\nNothing.\n",
		"docs/README.md": "# Documentation\n\n## Tutorials\n\n| | |\n|---|---|\n| [Start](start.md) | first |\n| [Example](../examples/foo/README.md) | an example |\n\n" +
			"## Reference\n\n| to | read |\n|---|---|\n| all | [Commands](reference/kapok.md) |\n| Go | [Packages](https://pkg.go.dev/kapok) |\n",
		"docs/start.md":                "# Start `kapok`\n\n## First step\n\n    $ kapok up\n    ready\n\n## First step\n\n[up](../cmd/kapok/up.go#L1), [cmd](../cmd), ![home](images/home.png)\n",
		"docs/images/home.png":         "png",
		"docs/reference/kapok.md":      "## kapok\n\n* [up](kapok_up.md)\n",
		"docs/reference/kapok_up.md":   "## kapok up\n\n### Options\n\n```\n  --listen\n```\n",
		"examples/foo/README.md":       "# Foo\n\n[start](../../docs/start.md)\n",
		"examples/bar/README.md":       "# Bar\n",
		"docs/site/testdata/README.md": "# None\n",
	}
	maps.Copy(files, changes)
	all := fstest.MapFS{}
	for name, text := range files {
		if text != "" {
			all[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return all
}

func built(t *testing.T, changes map[string]string) site {
	t.Helper()
	s, err := build(clone(changes), settings)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPages checks which documents become pages, and where.
func TestPages(t *testing.T) {
	s := built(t, nil)
	var got []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !strings.HasPrefix(name, "assets/") {
			got = append(got, name)
		}
	}
	want := []string{"CHANGELOG.html", "docs/images/home.png", "docs/index.html", "docs/reference/kapok.html", "docs/reference/kapok_up.html", "docs/start.html",
		"examples/foo/index.html", "index.html", "index.zh-CN.html"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestLinks checks links between pages, to images, and to other files.
func TestLinks(t *testing.T) {
	s := built(t, nil)
	for page, links := range map[string][]string{
		"index.html":                   {`href="docs/start.html#first-step"`, `href="https://example.com/kapok/blob/0123456789abcdef/LICENSE"`},
		"docs/start.html":              {`href="https://example.com/kapok/blob/0123456789abcdef/cmd/kapok/up.go#L1"`, `href="https://example.com/kapok/tree/0123456789abcdef/cmd"`, `src="images/home.png"`},
		"docs/reference/kapok_up.html": {`href="../../assets/site.css?`, `href="../start.html"`},
		"examples/foo/index.html":      {`href="../../docs/start.html"`},
	} {
		for _, link := range links {
			if !bytes.Contains(s[page], []byte(link)) {
				t.Errorf("%s has no %s", page, link)
			}
		}
	}
}

// TestErrors checks that each error in documents fails the build, and that its message names the
// document.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no file":       {"docs/start.md", "# Start\n\n[x](missing.md)\n", "docs/start.md links to missing.md: no such file in the repository"},
		"no image":      {"docs/start.md", "# Start\n\n![x](missing.png)\n", "docs/start.md links to missing.png: no such file in the repository"},
		"image outside": {"docs/start.md", "# Start\n\n![x](https://example.com/x.png)\n", "docs/start.md links to https://example.com/x.png: an image must be in the repository"},
		"outside":       {"docs/start.md", "# Start\n\n[x](../../x.md)\n", "docs/start.md links to ../../x.md: no such file in the repository"},
		"no anchor":     {"docs/start.md", "# Start\n\n[x](README.md#guides)\n", `docs/start.html: link "index.html#guides": docs/index.html has no heading with this anchor`},
		"no own anchor": {"CHANGELOG.md", "# Changelog\n\n[x](#none)\n", `CHANGELOG.html: link "#none": CHANGELOG.html has no heading with this anchor`},
		"not listed":    {"docs/more.md", "# More\n", "docs/more.md is not listed in docs/README.md: add a row for it"},
		"HTML":          {"docs/start.md", "# Start\n\n<b>bold</b>\n", "docs/start.md contains HTML, which the site does not show: write Markdown"},
		"no title":      {"docs/start.md", "Text\n", "docs/start.md has no title: begin it with a heading"},
		"no contents":   {"docs/README.md", "# Documentation\n", "docs/README.md has no section with a table of pages"},
		"no list":       {"docs/README.md", "", "docs/README.md does not exist"},
		"no home":       {"README.md", "", "open README.md: file does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(clone(map[string]string{c.file: c.text}), settings)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestLanguages checks pages with a translation: the switch, the words of the frame, and the
// navigation, which is that of the Chinese contents once they exist.
func TestLanguages(t *testing.T) {
	s := built(t, nil)
	home, translated := string(s["index.html"]), string(s["index.zh-CN.html"])
	for _, c := range []struct {
		page, want string
		has        bool
	}{
		{home, `<html lang="en">`, true},
		{home, `<a class="language" href="index.zh-CN.html" hreflang="zh-CN" lang="zh-CN">中文</a>`, true},
		{home, `English |`, false},
		{translated, `<html lang="zh-CN">`, true},
		{translated, `<a class="language" href="index.html" hreflang="en" lang="en">English</a>`, true},
		{translated, `| 中文`, false},
		{translated, `aria-label="搜索"`, true},
		{translated, `<summary>Tutorials</summary>`, true},
		{string(s["docs/start.html"]), `class="language"`, false},
	} {
		if strings.Contains(c.page, c.want) != c.has {
			t.Errorf("%q: want %t", c.want, c.has)
		}
	}

	s = built(t, map[string]string{
		"docs/README.zh-CN.md": "# 文档\n\n## 教程\n\n| | |\n|---|---|\n| [开始](start.zh-CN.md) | |\n| [命令](reference/kapok.md) | |\n",
		"docs/start.zh-CN.md":  "# 开始使用\n",
	})
	for _, want := range []string{`<summary>教程</summary>`, `<a href="docs/start.zh-CN.html" hreflang="zh-CN">开始</a>`, `<a href="docs/reference/kapok.html" hreflang="en">命令</a>`} {
		if !bytes.Contains(s["index.zh-CN.html"], []byte(want)) {
			t.Errorf("the Chinese navigation has no %s", want)
		}
	}
	if !bytes.Contains(s["docs/start.html"], []byte(`<a class="language" href="start.zh-CN.html"`)) {
		t.Error("a page with a translation has no switch")
	}
}

// TestNavigation checks that the order of the pages is that of the contents, and that pages below a
// listed one are shown with it only.
func TestNavigation(t *testing.T) {
	s := built(t, nil)
	around := regexp.MustCompile(`class="(?:before|after)" rel="(\w+)" href="([^"]*)"`)
	for page, want := range map[string]string{
		"index.html":                   "",
		"docs/start.html":              "next ../examples/foo/index.html",
		"examples/foo/index.html":      "prev ../../docs/start.html, next ../../docs/reference/kapok.html",
		"docs/reference/kapok.html":    "prev ../../examples/foo/index.html",
		"docs/reference/kapok_up.html": "prev kapok.html",
	} {
		var got []string
		for _, match := range around.FindAllSubmatch(s[page], -1) {
			got = append(got, string(match[1])+" "+string(match[2]))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", page, got, want)
		}
	}
	for page, want := range map[string]bool{"docs/start.html": false, "docs/reference/kapok.html": true, "docs/reference/kapok_up.html": true} {
		_, navigation, _ := strings.Cut(string(s[page]), `<nav id="pages"`)
		navigation, _, _ = strings.Cut(navigation, "</nav>")
		if got := strings.Contains(navigation, "kapok_up.html"); got != want {
			t.Errorf("%s shows kapok_up.html in its navigation: %t, want %t", page, got, want)
		}
	}
	if !bytes.Contains(s["docs/reference/kapok_up.html"], []byte(`<li><a href="kapok_up.html" hreflang="en" aria-current="page">kapok up</a></li>`)) {
		t.Error("kapok_up.html is not the current page of its navigation")
	}
}

// TestRepository builds the site of this repository, twice: it must have no errors, and the same
// bytes.
func TestRepository(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	first, err := build(root, settings)
	if err != nil {
		t.Fatal(err)
	}
	second, err := build(root, settings)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(first, second, bytes.Equal) {
		t.Error("two builds differ")
	}
	if len(first) < 150 {
		t.Errorf("the site has only %d files", len(first))
	}
}
