package sources

import (
	"bytes"
	"regexp"
)

// kept matches what a body of a function may contain that has an effect outside of it: markers, of which some generators read
// even these, and line directives.
var kept = regexp.MustCompile(`//[ \t]*\+|//line |/\*line `)

// removable reports whether nothing outside of a function depends on the text of its body, from after the brace that opens it
// up to the brace that closes it. A comment beside the closing brace may be near enough to the next declaration to be read.
func removable(body []byte) bool {
	last := bytes.LastIndexByte(body, '\n')
	return last >= 0 && len(bytes.TrimSpace(body[last:])) == 0 && !kept.Match(body)
}

// cut replaces the bodies of functions by spaces, in the given text, so that they need not be parsed. All positions stay. It
// expects declarations at the beginning of lines, as gofmt writes them, and leaves others.
func cut(src []byte) {
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
			if body := src[open+1 : end]; removable(body) {
				for i, c := range body {
					if c != '\n' {
						body[i] = ' '
					}
				}
			}
			at = end + 1
			continue
		}
		at = next(src, at)
	}
}

// bodyOf returns the position of the brace that opens the body of the function whose signature begins at a position, -1 if it
// has no body.
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
