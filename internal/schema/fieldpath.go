package schema

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errNoField reports that a path refers to no field of the schema.
var errNoField = errors.New("does not refer to a valid field")

var errEnd = errors.New("unexpected end of JSON path")

// fieldAt parses the fieldPath of a condition, such as .spec['key'].name, whose fields must be
// properties of n.
func fieldAt(text string, n *node) (*field.Path, error) {
	var at *field.Path
	for text != "" {
		var name string
		var err error
		switch text[0] {
		case '.':
			end := strings.IndexAny(text[1:], ".[]") + 1
			if end == 0 {
				end = len(text)
			}
			name, text = text[1:end], text[end:]
			switch {
			case name == "" && text == "":
				return nil, errEnd
			case name == "":
				name, text = text[:1], text[1:] // a separator in place of a name counts as a name
			}
		case '[':
			if name, text, err = quoted(text[1:]); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("expected [ or . but got: %s", text)
		}
		switch {
		case n == nil:
			return nil, errNoField
		case len(n.fields) > 0:
			if n = n.field(name); n == nil {
				return nil, errNoField
			}
			at = at.Child(name)
		case n.extra:
			n, at = n.additional, at.Key(name)
		default:
			return nil, errNoField
		}
	}
	return at, nil
}

// quoted parses a key in single quotes and the following bracket, and returns the rest.
func quoted(text string) (key, rest string, err error) {
	if !strings.HasPrefix(text, "'") {
		return "", "", fmt.Errorf("expected single quoted string but got %s", text)
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			rest, ok := strings.CutPrefix(text[i+1:], "]")
			if !ok {
				return "", "", fmt.Errorf("expected ] but got %s", text[i+1:])
			}
			return b.String(), rest, nil
		case c != '\\':
			b.WriteByte(c)
		default:
			if i++; i == len(text) {
				return "", "", errEnd
			}
			const escapes, meant = `abfnrtv'\`, "\a\b\f\n\r\t\v'\\"
			e := strings.IndexByte(escapes, text[i])
			if e < 0 {
				return "", "", fmt.Errorf(`invalid escape char \%c`, text[i])
			}
			b.WriteByte(meant[e])
		}
	}
	return "", "", errEnd
}
