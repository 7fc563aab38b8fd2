package sources

import (
	"bytes"
	"regexp"
)

// kept matches what a body of a function may contain that has an effect outside of it: markers, of
// which some generators read even these, and line directives.
var kept = regexp.MustCompile(`//[ \t]*\+|//line |/\*line `)

// removable reports whether nothing outside of a function depends on the text of its body, from
// after the brace that opens it up to the brace that closes it. A comment beside the closing brace
// may be near enough to the next declaration to be read.
func removable(body []byte) bool {
	last := bytes.LastIndexByte(body, '\n')
	return last >= 0 && len(bytes.TrimSpace(body[last:])) == 0 && !kept.Match(body)
}

// cut replaces the bodies of functions by spaces, in the given text, so that they need not be
// parsed. All positions stay. It expects declarations at the beginning of lines, as gofmt writes
// them, and leaves others. With shapes, functions and methods that are not of a shape are replaced
// whole, with their documentation.
func cut(src []byte, shapes bool) {
	for at := 0; at < len(src); {
		if bytes.HasPrefix(src[at:], []byte("func")) && (at == 0 || src[at-1] == '\n') {
			open := bodyOf(src, at+len("func"))
			if open < 0 {
				at += len("func")
				continue
			}
			end := closing(src, open)
			if end < 0 {
				return
			}
			if removable(src[open+1 : end]) {
				if start := docOf(src, at); shapes && !isShapeSignature(src[at:open]) && !kept.Match(src[start:open]) {
					blank(src[start : end+1])
				} else {
					blank(src[open+1 : end])
				}
			}
			at = end + 1
			continue
		}
		at = next(src, at)
	}
}

// blank replaces a text by spaces.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}
}

// docOf returns the beginning of the line comments above the line at a position.
func docOf(src []byte, at int) int {
	for at > 0 {
		above := bytes.LastIndexByte(src[:at-1], '\n') + 1
		if !bytes.HasPrefix(src[above:at], []byte("//")) {
			break
		}
		at = above
	}
	return at
}

// method matches the signature of a method, with its name.
var method = regexp.MustCompile(`^func[ \t]*\([^()]*\)[ \t]*(\w+)`)

// isShapeSignature reports whether a signature may be of a method that LoadShapes loads.
func isShapeSignature(signature []byte) bool {
	if match := method.FindSubmatch(signature); match != nil {
		return isShapeMethod(string(match[1]))
	}
	return !bytes.HasPrefix(signature, []byte("func ")) || bytes.HasPrefix(bytes.TrimLeft(signature[len("func"):], " \t"), []byte("("))
}

// bodyOf returns the position of the brace that opens the body of the function whose signature
// begins at a position, -1 if it has no body.
func bodyOf(src []byte, at int) int {
	depth := 0
	for at < len(src) {
		switch src[at] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '\n':
			if depth == 0 {
				return -1
			}
		case '{':
			word := bytes.TrimRight(src[:at], " \t")
			if depth == 0 && !bytes.HasSuffix(word, []byte("interface")) && !bytes.HasSuffix(word, []byte("struct")) {
				return at
			}
			if at = closing(src, at); at < 0 {
				return -1
			}
		}
		at = next(src, at)
	}
	return -1
}

// closing returns the position of the brace that closes the one at a position, -1 if there is none.
func closing(src []byte, at int) int {
	depth := 0
	for at < len(src) {
		switch src[at] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return at
			}
		}
		at = next(src, at)
	}
	return -1
}

// next returns the position after the comment, the literal or the byte at a position.
func next(src []byte, at int) int {
	after := func(end int, size int) int {
		if end < 0 {
			return len(src)
		}
		return at + 2 + end + size
	}
	switch c := src[at]; c {
	case '/':
		switch {
		case bytes.HasPrefix(src[at:], []byte("//")):
			return after(bytes.IndexByte(src[at+2:], '\n'), 0)
		case bytes.HasPrefix(src[at:], []byte("/*")):
			return after(bytes.Index(src[at+2:], []byte("*/")), 2)
		}
	case '`':
		if end := bytes.IndexByte(src[at+1:], '`'); end >= 0 {
			return at + 1 + end + 1
		}
		return len(src)
	case '"', '\'':
		for at++; at < len(src); at++ {
			switch src[at] {
			case '\\':
				at++
			case c:
				return at + 1
			case '\n': // not valid: the parser will say so
				return at
			}
		}
		return len(src)
	}
	return at + 1
}

// Head returns what is before the first declaration of a file that is no import: build constraints,
// the package and its imports.
func Head(src []byte) []byte {
	for at := 0; at < len(src); at = next(src, at) {
		if at > 0 && src[at-1] != '\n' && src[at-1] != ';' && src[at-1] != ' ' && src[at-1] != '\t' && src[at-1] != '/' {
			continue
		}
		for _, word := range []string{"func", "type", "var", "const"} {
			if bytes.HasPrefix(src[at:], []byte(word)) {
				return src[:at]
			}
		}
	}
	return src
}
