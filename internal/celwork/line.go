package celwork

import (
	"errors"
	"strings"
)

// For each of up to 100 errors, the compiler shows the line and appends the characters of a second
// one, one by one: errors at the end of a line of 10 KiB take gigabytes of allocations. It does not
// show lines of more than 16,384 bytes.
const (
	// longestLine bounds the lines that errors show in any case.
	longestLine = 200
	// unshownLine is the length of a line that errors do not show.
	unshownLine = 16385
	// shownWork bounds the work to show the lines of the errors of an expression.
	shownWork = 20_000
	// errorWork is the work for an error that does not show its line.
	errorWork = 1000
)

var errLine = errors.New("an expression with triple-quoted strings must not have lines of more than 1000 bytes")

// Hide returns an expression with spaces after its long lines, so that errors do not show them. It
// returns an error for one with long lines to which none can be added.
func Hide(text string) (string, error) {
	longest := longestOf(text)
	if longest <= longestLine {
		return text, nil
	}
	if strings.Contains(text, `"""`) || strings.Contains(text, `'''`) { // spaces could become part of a string
		if longest > 1000 {
			return "", errLine
		}
		return text, nil
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		content := strings.TrimRight(line, "\r\n")
		b.WriteString(content)
		if len(content) > longestLine {
			b.WriteString(strings.Repeat(" ", max(0, unshownLine-len(content))))
		}
		b.WriteString(line[len(content):])
	}
	return b.String(), nil
}

func longestOf(text string) (longest int) {
	for line := range strings.Lines(text) {
		longest = max(longest, len(line))
	}
	return longest
}

// errorsIn returns the number of errors in a message.
func errorsIn(message string) int { return strings.Count(message, "ERROR: ") }

// lineWork returns the work to show the line of one error.
func lineWork(text string) int {
	longest := longestOf(text)
	return plus(longest, times(longest, longest)/100)
}
