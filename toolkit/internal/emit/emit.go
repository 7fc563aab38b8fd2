// Package emit writes trees of JSON as YAML, byte for byte as sigs.k8s.io/yaml writes them.
//
// That package writes JSON, parses it as YAML, and emits the result by a library whose buffer of
// events grows with the document: together this took a third of the time in which definitions are
// generated. [YAML] writes trees directly. What is rare in definitions, such as control characters,
// is left to the library, for the whole document.
//
// Functions may be called concurrently.
package emit

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// YAML returns a tree of maps, slices, strings, numbers of type json.Number, bools and nils as
// YAML.
func YAML(tree map[string]any) ([]byte, error) {
	e := &emitter{}
	if len(tree) > 0 && e.mapping(tree, 0, false) == nil {
		e.out.WriteByte('\n')
		return e.out.Bytes(), nil
	}
	return yaml.Marshal(tree)
}

// errRare is the error for a value that is left to the library.
var errRare = errors.New("a value that is left to the library")

type emitter struct {
	out bytes.Buffer
}

// line begins a line.
func (e *emitter) line(indent int) {
	if e.out.Len() > 0 {
		e.out.WriteByte('\n')
	}
	e.indent(indent)
}

func (e *emitter) indent(n int) {
	for range n {
		e.out.WriteByte(' ')
	}
}

// mapping writes a map whose keys are indented by some columns. The first one may follow the dash
// of an item.
func (e *emitter) mapping(tree map[string]any, indent int, inItem bool) error {
	var failed error
	keys := slices.SortedFunc(maps.Keys(tree), func(a, b string) int {
		order, err := compare(a, b)
		if err != nil {
			failed = err
		}
		return order
	})
	if failed != nil {
		return failed
	}
	for i, key := range keys {
		if i > 0 || !inItem {
			e.line(indent)
		}
		if !plainKey.MatchString(key) {
			return errRare
		}
		text, err := e.word(key)
		if err != nil {
			return err
		}
		e.out.WriteString(text)
		e.out.WriteByte(':')
		if err := e.value(tree[key], indent, indent+len(text)+1); err != nil {
			return err
		}
	}
	return nil
}

// value writes the value of a key. The column is that after the colon.
func (e *emitter) value(value any, indent, column int) error {
	switch v := value.(type) {
	case map[string]any:
		if len(v) > 0 {
			return e.mapping(v, indent+2, false)
		}
	case []any:
		if len(v) > 0 {
			return e.sequence(v, indent, false)
		}
	}
	return e.scalar(value, indent+2, column)
}

// sequence writes a slice whose dashes are indented by some columns. The first one may follow the
// dash of an item.
func (e *emitter) sequence(items []any, indent int, inItem bool) error {
	for i, item := range items {
		if i > 0 || !inItem {
			e.line(indent)
		}
		e.out.WriteByte('-')
		var err error
		switch v := item.(type) {
		case map[string]any:
			if len(v) > 0 {
				e.out.WriteByte(' ')
				err = e.mapping(v, indent+2, true)
			} else {
				err = e.scalar(item, indent+2, indent+1)
			}
		case []any:
			if len(v) > 0 {
				e.out.WriteByte(' ')
				err = e.sequence(v, indent+2, true)
			} else {
				err = e.scalar(item, indent+2, indent+1)
			}
		default:
			err = e.scalar(item, indent+2, indent+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// floating matches the numbers of JSON that are numbers of YAML 1.1, besides integers.
var floating = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+][0-9]+)?$`)

// scalar writes a space and a value without parts. Its further lines are indented by some columns.
func (e *emitter) scalar(value any, indent, column int) error {
	text := ""
	switch v := value.(type) {
	case nil:
		text = "null"
	case bool:
		text = strconv.FormatBool(v)
	case map[string]any:
		text = "{}"
	case []any:
		text = "[]"
	case json.Number:
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil && v != "-0" {
			text = string(v)
			break
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || !floating.MatchString(string(v)) || !strings.ContainsAny(string(v), ".eE") {
			return errRare
		}
		text = strconv.FormatFloat(f, 'g', -1, 64)
	case string:
		return e.text(v, indent, column)
	default:
		return errRare
	}
	e.out.WriteByte(' ')
	e.out.WriteString(text)
	return nil
}

var (
	// plainKey matches the keys that need at most quotes.
	plainKey = regexp.MustCompile(`^[A-Za-z0-9_$./-]{1,100}$`)
	// doubtful matches texts that may be something else than texts in YAML 1.1, such as numbers, times
	// and bools.
	doubtful = regexp.MustCompile(`^([-+.0-9~=<].*|(?i:y|n|yes|no|on|off|true|false|null|))$`)
)

// word returns a short text without spaces, with the quotes that it needs.
func (e *emitter) word(s string) (string, error) {
	if !doubtful.MatchString(s) {
		return s, nil
	}
	if len(s) > 60 || strings.ContainsAny(s, " \n") {
		return "", errRare // it may have several lines
	}
	data, err := yaml.Marshal(s)
	return strings.TrimSuffix(string(data), "\n"), err
}

// text writes a space and a text.
func (e *emitter) text(s string, indent, column int) error {
	for _, r := range s {
		if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0xfeff {
			return errRare
		}
	}
	e.out.WriteByte(' ')
	if strings.Contains(s, "\n") {
		if strings.Contains(s, " \n") || s[len(s)-1] == ' ' {
			e.escaped(s, indent, column+1)
			return nil
		}
		return e.literal(s, indent)
	}
	if s == "" || doubtful.MatchString(s) {
		word, err := e.word(s)
		e.out.WriteString(word)
		return err
	}
	if s[len(s)-1] == ' ' || s[0] == ' ' || strings.ContainsRune(",[]{}#&*!|>'\"%@`", rune(s[0])) || strings.Contains(s, ": ") || s[len(s)-1] == ':' ||
		strings.Contains(s, " #") || (s[0] == '?' && (len(s) == 1 || s[1] == ' ')) || (s[0] == ':' && (len(s) == 1 || s[1] == ' ')) {
		e.out.WriteByte('\'')
		e.folded(s, indent, column+2, true)
		e.out.WriteByte('\'')
		return nil
	}
	e.folded(s, indent, column+1, false)
	return nil
}

// width is the column after which a line is folded.
const width = 80

// folded writes a text in lines, which break at single spaces.
func (e *emitter) folded(s string, indent, column int, quoted bool) {
	wasSpace := false
	for i, r := range s {
		if r == ' ' {
			isLast := i+1 == len(s)
			if !wasSpace && column > width && !(isLast && quoted) && !(i == 0 && quoted) && !(!isLast && s[i+1] == ' ') {
				e.line(indent)
				column = indent
			} else {
				e.out.WriteByte(' ')
				column++
			}
			wasSpace = true
			continue
		}
		if r == '\'' && quoted {
			e.out.WriteByte('\'')
			column++
		}
		e.out.WriteRune(r)
		column++
		wasSpace = false
	}
}

// escaped writes a text between double quotes, with escapes for the ends of its lines.
func (e *emitter) escaped(s string, indent, column int) {
	put := func(text string) {
		e.out.WriteString(text)
		column += utf8.RuneCountInString(text)
	}
	put(`"`)
	wasSpace := false
	for i, r := range s {
		switch r {
		case '\n':
			put(`\n`)
		case '"':
			put(`\"`)
		case '\\':
			put(`\\`)
		case ' ':
			if !wasSpace && column > width && i > 0 && i+1 < len(s) {
				e.line(indent)
				column = indent
				if s[i+1] == ' ' {
					put(`\`)
				}
			} else {
				put(" ")
			}
		default:
			put(string(r))
		}
		wasSpace = r == ' '
	}
	put(`"`)
}

// literal writes a text of several lines as it is.
func (e *emitter) literal(s string, indent int) error {
	if strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") {
		return errRare
	}
	e.out.WriteByte('|')
	if s[0] == ' ' {
		e.out.WriteByte('2')
	}
	s, ended := strings.CutSuffix(s, "\n")
	if !ended {
		e.out.WriteByte('-')
	}
	for line := range strings.SplitSeq(s, "\n") {
		e.out.WriteByte('\n')
		if line != "" {
			e.indent(indent)
			e.out.WriteString(line)
		}
	}
	return nil
}

// compare orders keys: letters after other characters, and numbers by their values.
func compare(a, b string) (int, error) {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n {
		return len(a) - len(b), nil
	}
	switch x, y := a[i], b[i]; {
	case isLetter(x) && isLetter(y):
		return int(x) - int(y), nil
	case isLetter(x):
		return 1, nil
	case isLetter(y):
		return -1, nil
	case x == '0' || y == '0' || x >= 0x80 || y >= 0x80:
		return 0, errRare // zeros before a number
	case isDigit(x) && isDigit(y):
		if order := digits(a[i:]) - digits(b[i:]); order != 0 {
			return order, nil
		}
		return int(x) - int(y), nil
	case isDigit(x):
		return 1, nil
	case isDigit(y):
		return -1, nil
	default:
		return int(x) - int(y), nil
	}
}

// digits returns the number of digits with which a text begins.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
