package generate

import (
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A Problem is a mistake in a source. As an error it is FILE:LINE:COLUMN: MESSAGE.
type Problem struct {
	// At is where it is; not valid if that is not known. The file is relative to the working directory
	// if it is below.
	At      token.Position
	Message string
	// Doc is the first sentence of the documentation of the marker that the message is about, "" if
	// there is none.
	Doc string
}

func (p Problem) Error() string {
	text := p.Message
	if p.At.Filename != "" {
		text = p.At.String() + ": " + text
	}
	if p.Doc != "" {
		text += "\n\t" + p.Doc
	}
	return text
}

// problemOf returns an error of a load as a Problem.
func problemOf(err packages.Error) Problem {
	p := Problem{Message: err.Msg}
	if err.Pos == "" || err.Pos == "-" {
		return p
	}
	file, column := cutNumber(err.Pos)
	file, line := cutNumber(file)
	if line == 0 { // without a column
		line, column = column, 0
	}
	p.At = token.Position{Filename: relative(file), Line: line, Column: column}
	return p
}

// cutNumber returns what is before the last colon of a text, and the number after it; the text and
// 0 if there is none.
func cutNumber(text string) (string, int) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return text, 0
	}
	n, err := strconv.Atoi(text[at+1:])
	if err != nil {
		return text, 0
	}
	return text[:at], n
}

// position returns a position with its file relative to the working directory if it is below.
func position(files *token.FileSet, at token.Pos) token.Position {
	p := files.Position(at)
	p.Filename = relative(p.Filename)
	return p
}

func relative(file string) string {
	if dir, err := os.Getwd(); err == nil {
		if name, err := filepath.Rel(dir, file); err == nil && !strings.HasPrefix(name, "..") {
			return name
		}
	}
	return file
}

// inMarker is the position in a marker that controller-tools adds to messages. The marker's
// position is that of its problem.
var inMarker = regexp.MustCompile(` \(at <input>:\d+:\d+\)$`)

// plainer rewords messages of controller-tools about its own data structures, and drops those that
// only follow from another problem of the same line.
func plainer(errs []error) []error {
	type place struct {
		file string
		line int
	}
	named := map[place]bool{} // lines with a problem that is no consequence
	for i, err := range errs {
		p, ok := err.(Problem)
		if !ok {
			continue
		}
		p.Message = inMarker.ReplaceAllString(p.Message, "")
		switch p.Message {
		case "unsupported AST kind *ast.FuncType":
			p.Message = "a function cannot be a field of an API: it has no form in JSON"
		case "unsupported AST kind *ast.ChanType":
			p.Message = "a channel cannot be a field of an API: it has no form in JSON"
		}
		errs[i] = p
		if !follows(p.Message) {
			named[place{p.At.Filename, p.At.Line}] = true
		}
	}
	return slices.DeleteFunc(errs, func(err error) bool {
		p, ok := err.(Problem)
		return ok && follows(p.Message) && named[place{p.At.Filename, p.At.Line}]
	})
}

// follows reports whether a message is one of a generator that met a type of which another message
// tells more.
func follows(message string) bool {
	return strings.HasPrefix(message, "invalid field type: ") ||
		strings.HasPrefix(message, "must apply ") && strings.HasSuffix(message, ", found ") // no type
}

// unique drops repeated errors: controller-tools reports some of them once for each generator.
func unique(errs []error) []error {
	seen := map[string]bool{}
	var all []error
	for _, err := range errs {
		if !seen[err.Error()] {
			seen[err.Error()] = true
			all = append(all, err)
		}
	}
	return all
}
