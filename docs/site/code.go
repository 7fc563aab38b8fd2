package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// Forms of blocks of code that are not the name of a language.
const (
	session = "session" // commands after "$ ", and what they print
	plain   = "plain"   // output, diagrams, and what is not known
)

// renderCode renders a block of code. Blocks with something to copy are marked for the button.
func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	code := lines(n, source)
	form := ""
	if fenced, ok := n.(*ast.FencedCodeBlock); ok {
		form = string(fenced.Language(source))
	}
	if form == "" {
		form = formOf(code)
	}
	fmt.Fprintf(w, `<div class="code" data-form="%s"><pre class="scroll"><code>`, html.EscapeString(form))
	if form == session {
		w.WriteString(colourSession(code))
	} else {
		w.WriteString(colour(code, form))
	}
	w.WriteString("</code></pre></div>\n")
	return ast.WalkSkipChildren, nil
}

// Most blocks of the documents are indented, and so without the name of a language.
var (
	prompt    = regexp.MustCompile(`(?m)^\$ `)
	looksGo   = regexp.MustCompile(`^(//.*\n)*(package \w+\n|import ["(]|func |type \w+ |var \w+ |const \w+ |if .* \{\n|for .* \{\n|return |defer |go func)|(?m)^\s*[\w, ]+ := |^\w+(\.\w+)+\(.*\)\n`)
	looksYAML = regexp.MustCompile(`^(#.*\n)*\s*(- )?[A-Za-z][\w.-]*:( \S.*)?\n.`)
	looksJSON = regexp.MustCompile(`^[\[{]`)
	looksINI  = regexp.MustCompile(`^(#.*\n)*(\[\w+\]\n|[A-Z_]+=\S+\n)`)
	looksXML  = regexp.MustCompile(`^<\w`)
	command   = regexp.MustCompile(`^(#.*\n)*( *)(\.ci/|\./|sudo |[A-Z_]+=\S+ |(apt|brew|cat|cd|cp|curl|diff|docker|etcdctl|export|gh|git|go|head|helm|journalctl|kapok|kubectl|ln|make|mkdir|npm|openssl|rm|setup-envtest|sh|sha256sum|source|systemctl|tail|tar|test/[a-z]+/[a-z]+|touch|umask|winget)( |\n))`)
)

// formOf guesses the language of a block of code from its text.
func formOf(code string) string {
	switch {
	case prompt.MatchString(code):
		return session
	case command.MatchString(code):
		return "sh"
	case looksGo.MatchString(code):
		return "go"
	case looksJSON.MatchString(code):
		return "json"
	case looksXML.MatchString(code):
		return "xml"
	case looksINI.MatchString(code):
		return "ini"
	case looksYAML.MatchString(code):
		return "yaml"
	}
	return plain
}

// colour returns code as HTML, with the classes of the style sheet. Code in an unknown language has
// none.
func colour(code, language string) string {
	lexer := lexers.Get(language)
	if lexer == nil {
		return html.EscapeString(code)
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		return html.EscapeString(code)
	}
	var b strings.Builder
	for _, token := range tokens.Tokens() {
		text := html.EscapeString(token.Value)
		if class := classOf(token.Type); class != "" && strings.TrimSpace(text) != "" {
			fmt.Fprintf(&b, `<span class="%s">%s</span>`, class, text)
		} else {
			b.WriteString(text)
		}
	}
	return b.String()
}

// classOf returns the class of a token in the style sheet, "" for text without a colour.
func classOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Keyword):
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "n"
	case t.InCategory(chroma.Comment):
		return "c"
	case t == chroma.NameTag || t == chroma.NameAttribute || t == chroma.NameProperty:
		return "a"
	case t == chroma.NameFunction:
		return "f"
	case t == chroma.GenericInserted:
		return "add"
	case t == chroma.GenericDeleted:
		return "del"
	}
	return ""
}

// hereDocument matches the end of a command that is followed by its input, and the line after it.
var hereDocument = regexp.MustCompile(`<<-?['"]?(\w+)['"]?`)

// colourSession returns a session in a shell as HTML: each command as an element with the class
// "command", which copying takes, and all else with the class "output". The style sheet shows the
// prompts.
func colourSession(code string) string {
	var b strings.Builder
	rest := strings.SplitAfter(strings.TrimSuffix(code, "\n"), "\n")
	for len(rest) > 0 {
		n := 1
		if first, ok := strings.CutPrefix(rest[0], "$ "); ok {
			n = commandLines(rest)
			whole := first + strings.Join(rest[1:n], "")
			bare, found := strings.CutSuffix(whole, "\n")
			fmt.Fprintf(&b, `<span class="command">%s</span>`, html.EscapeString(bare))
			if found {
				b.WriteByte('\n')
			}
		} else {
			for n < len(rest) && !strings.HasPrefix(rest[n], "$ ") {
				n++
			}
			fmt.Fprintf(&b, `<span class="output">%s</span>`, html.EscapeString(strings.Join(rest[:n], "")))
		}
		rest = rest[n:]
	}
	return b.String()
}

// commandLines returns the number of lines of the command that begins with the first one: it goes
// on after a backslash, and up to the end of a here-document.
func commandLines(lines []string) int {
	n := 1
	for n < len(lines) && strings.HasSuffix(lines[n-1], "\\\n") {
		n++
	}
	match := hereDocument.FindStringSubmatch(strings.Join(lines[:n], ""))
	if match == nil {
		return n
	}
	for end := n; end < len(lines); end++ {
		if strings.TrimSpace(lines[end]) == match[1] {
			return end + 1
		}
	}
	return n
}
