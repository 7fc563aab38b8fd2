package process

import "strings"

// expand replaces $(NAME) by the value of a variable, and $$ by $. References to unknown variables, and what is no
// reference, stay as they are.
func expand(text string, value func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			text = after[1:]
			continue
		case strings.HasPrefix(after, "("):
			if name, rest, closed := strings.Cut(after[1:], ")"); closed {
				if v, known := value(name); known {
					out.WriteString(v)
				} else {
					out.WriteString("$(" + name + ")")
				}
				text = rest
				continue
			}
		}
		out.WriteByte('$')
		text = after
	}
}
