package openapi

import "strings"

// withoutDescriptions removes every description from the JSON of a schema: four fifths of the text.
// Quotes within strings are escaped, and a property named description is an object, so the marker
// matches descriptions only.
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

// endOfString returns the index after the closing quote of the JSON string that s starts within.
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
