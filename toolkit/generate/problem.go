package generate

import (
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A Problem is a mistake in a source. As an error it is FILE:LINE:COLUMN: MESSAGE.
type Problem struct {
	// At is where it is; not valid if that is not known. The file is relative to the working directory if it is below.
	At      token.Position
	Message string
}

func (p Problem) Error() string {
	if p.At.Filename == "" {
		return p.Message
	}
	return p.At.String() + ": " + p.Message
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

// cutNumber returns what is before the last colon of a text, and the number after it; the text and 0 if there is none.
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
