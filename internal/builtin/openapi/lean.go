package openapi

import "strings"

// withoutDescriptions removes every description from the JSON of a schema; four fifths of the text are descriptions, and
// no machine reads them. Within strings quotes are escaped, and a property that is called description is an object, so
// that the marker is found only where it is meant.
func withoutDescriptions(raw string) string {
	const marker = `"description":"`
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(raw, marker)
		if !ok {
			out.WriteString(raw)
			return out.String()
		}
		after = after[endOfString(after):]
		if rest, more := strings.CutPrefix(after, ","); more {
			after = rest
		} else {
			before = strings.TrimSuffix(before, ",")
		}
		out.WriteString(before)
		raw = after
	}
}

// endOfString is where the JSON string ends whose inside s begins with, behind the closing quote.
func endOfString(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}
