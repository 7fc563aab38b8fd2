package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// longest is the maximum length of a stored line in bytes.
const longest = 4 << 10

// clean returns a text as one line that a terminal shows without further effect: control sequences
// and control characters are removed, tabs and line ends become spaces, and invalid bytes the
// replacement character. Characters that change the direction of text are removed, too.
func clean(text string) string {
	text = ansi.Strip(strings.ToValidUTF8(firstBytes(text, 4*longest), "\uFFFD"))
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != zeroWidthJoiner:
			return -1
		}
		return r
	}, text)
	if len(text) > longest {
		text = firstBytes(text, longest-len(ellipsis)) + ellipsis
	}
	return text
}

const (
	zeroWidthJoiner = '\u200D' // of emoji
	ellipsis        = "…"
)

// firstBytes returns the first bytes of a text without a part of a character at the end.
func firstBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// cut returns a clean text that takes at most so many columns.
func cut(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	return ansi.Truncate(text, columns, ellipsis)
}

// pad returns a clean text that takes exactly so many columns.
func pad(text string, columns int) string {
	text = cut(text, columns)
	return text + strings.Repeat(" ", max(0, columns-ansi.StringWidth(text)))
}
