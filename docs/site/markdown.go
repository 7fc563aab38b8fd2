package main

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensions "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads and renders documents as GitHub does.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(
			extension.Linkify, extension.Strikethrough, extension.TaskList,
			// No space for the end of a line between Chinese characters.
			extension.NewCJK(extension.WithEastAsianLineBreaks(extension.EastAsianLineBreaksCSS3Draft)),
			// Not as styles, which the policy of the pages forbids.
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 1))),
	)
}

// parse reads the text of a page: its tree, title, summary and headings.
func (p *page) parse() {
	p.tree = markdown().Parser().Parse(text.NewReader(p.text))
	p.removeSwitch()
	ids := map[string]int{}
	shift := 0
	for n := range nodes(p.tree) {
		switch n := n.(type) {
		case *ast.Heading:
			words := p.words(n)
			if p.title == "" {
				p.title, shift = words, n.Level-1
			}
			// Generated documents begin with a heading of the second level.
			n.Level = max(1, n.Level-shift)
			id := anchor(words, ids)
			n.SetAttributeString("id", []byte(id))
			if n.Level > 1 {
				p.headings = append(p.headings, heading{n.Level, id, words})
			}
		case *ast.Paragraph:
			if p.summary == "" && n.Parent() == p.tree {
				p.summary = p.words(n)
			}
		}
	}
	p.passages = p.split()
}

// removeSwitch removes the paragraph that leads to the translation: the frame has a switch.
func (p *page) removeSwitch() {
	for n := range nodes(p.tree) {
		link, ok := n.(*ast.Link)
		if !ok || n.Parent().Parent() != p.tree {
			continue
		}
		if name, _, err := target(p.path, string(link.Destination)); err == nil && name == translated(p.path) {
			p.tree.RemoveChild(p.tree, n.Parent())
			return
		}
	}
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor returns the ID of a heading as GitHub makes it. used counts the IDs of a page.
func anchor(words string, used map[string]int) string {
	id := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(words), ""), " ", "-")
	n := used[id]
	used[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return id
}

// render sets the head and the body of a page.
func (p *page) render() error {
	for n := range nodes(p.tree) {
		block, ok := n.(*ast.HTMLBlock)
		if _, raw := n.(*ast.RawHTML); raw || ok && block.HTMLBlockType != ast.HTMLBlockType2 {
			return fmt.Errorf("%s contains HTML, which the site does not show: write Markdown", p.path)
		}
	}
	var b bytes.Buffer
	if err := markdown().Renderer().Render(&b, p.text, p.tree); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	// Made from the repository, by a renderer that escapes.
	head, body, found := strings.Cut(b.String(), "</h1>\n")
	if !found {
		return fmt.Errorf("%s has no title: begin it with a heading", p.path)
	}
	p.head, p.body = template.HTML(head+"</h1>"), template.HTML(body)
	return nil
}

// blocks renders what pages show in another form than goldmark does.
type blocks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(ast.KindCodeSpan, renderCodeSpan)
	r.Register(ast.KindCodeBlock, renderCode)
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindHTMLBlock, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkSkipChildren, nil // comments
	})
	r.Register(extensions.KindTable, renderTable)
}

// renderHeading adds a link to the heading itself.
func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	level := n.(*ast.Heading).Level
	id, _ := n.AttributeString("id")
	escaped := html.EscapeString(string(id.([]byte)))
	switch {
	case entering:
		fmt.Fprintf(w, `<h%d id="%s">`, level, escaped)
	case level == 1:
		fmt.Fprintln(w, "</h1>")
	default:
		fmt.Fprintf(w, `<a class="anchor" href="#%s" aria-hidden="true" tabindex="-1">#</a></h%d>`+"\n", escaped, level)
	}
	return ast.WalkContinue, nil
}

// short is the number of characters of code within a line that are kept together: browsers break
// lines after hyphens, such as those of flags.
const short = 26

func renderCodeSpan(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if text, ok := child.(*ast.Text); ok {
			b.WriteString(strings.ReplaceAll(string(text.Value(source)), "\n", " "))
		}
	}
	class := ""
	if utf8.RuneCountInString(b.String()) <= short {
		class = ` class="short"`
	}
	fmt.Fprintf(w, "<code%s>%s</code>", class, html.EscapeString(b.String()))
	return ast.WalkSkipChildren, nil
}

// renderTable puts a table into a box, which scrolls if the table is too wide for the page.
func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		w.WriteString(`<div class="scroll"><table>` + "\n")
	} else {
		w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// nodes iterates over a tree, parents first. The node may be changed, or removed as the last step.
func nodes(tree ast.Node) iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		// The walker returns only errors of its function, which has none.
		_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering && !yield(n) {
				return ast.WalkStop, nil
			}
			return ast.WalkContinue, nil
		})
	}
}

// words returns the text of a node, without its form.
func (p *page) words(n ast.Node) string {
	var b strings.Builder
	for n := range nodes(n) {
		switch n := n.(type) {
		case *ast.Text:
			b.WriteString(html.UnescapeString(string(util.UnescapePunctuations(n.Value(p.text)))))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(p.text))
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			b.WriteString(lines(n, p.text))
		case *ast.Paragraph, *ast.TextBlock, *extensions.TableCell:
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// lines returns the text of a block of code.
func lines(n ast.Node, source []byte) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(source))
	}
	return b.String()
}
