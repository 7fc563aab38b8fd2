package typed

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// errNotJSON is the error for a value of a type that trees do not have.
var errNotJSON = errors.New("not a JSON tree")

// appendJSON appends what json.Marshal returns for a tree.
func appendJSON(b []byte, tree any) ([]byte, error) {
	switch v := tree.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case string:
		return appendText(b, v)
	case map[string]any:
		if v != nil {
			return appendObject(b, v)
		}
	case []any:
		if v != nil {
			return appendArray(b, v)
		}
	case float64:
	default:
		return nil, errNotJSON
	}
	data, err := json.Marshal(tree)
	return append(b, data...), err
}

func appendArray(b []byte, list []any) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, m map[string]any) (_ []byte, err error) {
	var few [8]string
	keys := few[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendText(b, key); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = appendJSON(b, m[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendText(b []byte, s string) ([]byte, error) {
	start := len(b)
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == '<' || c == '>' || c == '&' { // escaped, or not ASCII
			data, err := json.Marshal(s)
			return append(b[:start], data...), err
		}
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return append(b, '"'), nil
}

// parseFields parses the JSON of a FieldsV1 in the form in which it is written: objects of objects,
// without space. The keys share the memory of s.
func parseFields(s string) (map[string]any, bool) {
	m, rest, ok := parseObject(s, 0)
	return m, ok && rest == ""
}

// parseObject parses the object that s begins with, and returns what follows it.
func parseObject(s string, depth int) (m map[string]any, rest string, ok bool) {
	const deepest = 1000 // package json has a limit too
	if depth > deepest || len(s) < 2 || s[0] != '{' {
		return nil, "", false
	}
	m = map[string]any{}
	if s[1] == '}' {
		return m, s[2:], true
	}
	for s[0] != '}' {
		var key string
		if key, s, ok = parseKey(s[1:]); !ok || s == "" || s[0] != ':' {
			return nil, "", false
		}
		var value map[string]any
		if value, s, ok = parseObject(s[1:], depth+1); !ok || s == "" || s[0] != ',' && s[0] != '}' {
			return nil, "", false
		}
		m[key] = value
	}
	return m, s[1:], true
}

// parseKey parses the string that s begins with, and returns what follows it. The string must be
// ASCII without escapes, except for those of quotes and backslashes.
func parseKey(s string) (key, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	s = s[1:]
	escaped := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			if key = s[:i]; escaped {
				key = unescaper.Replace(key)
			}
			return key, s[i+1:], true
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
			escaped = true
		case c < ' ' || c > '~':
			return "", "", false
		}
	}
	return "", "", false
}

var unescaper = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
