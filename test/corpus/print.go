package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// lineWidth is the maximum width of an object or array on one line.
const lineWidth = 110

// printValue prints all of v, or the fields with the given paths, one a line.
func printValue(b *strings.Builder, v any, paths []string) {
	if len(paths) == 0 {
		printJSON(b, v, "", 0)
		b.WriteByte('\n')
		return
	}
	for _, path := range paths {
		b.WriteString(path + ": ")
		if value, found := field(v, path); found {
			printJSON(b, value, "", len(path)+2)
		} else {
			b.WriteString("absent")
		}
		b.WriteByte('\n')
	}
}

// printJSON prints v with sorted keys, on one line if it fits; used is the number of columns used
// already.
func printJSON(b *strings.Builder, v any, indent string, used int) {
	line := compact(v)
	if len(indent)+used+len(line) <= lineWidth {
		b.WriteString(line)
		return
	}
	inner := indent + "  "
	switch v := v.(type) {
	case map[string]any:
		b.WriteString("{\n")
		keys := slices.Sorted(maps.Keys(v))
		for i, key := range keys {
			quoted := compact(key)
			b.WriteString(inner + quoted + ": ")
			printJSON(b, v[key], inner, len(quoted)+2)
			endItem(b, i, len(keys))
		}
		b.WriteString(indent + "}")
	case []any:
		b.WriteString("[\n")
		for i, item := range v {
			b.WriteString(inner)
			printJSON(b, item, inner, 0)
			endItem(b, i, len(v))
		}
		b.WriteString(indent + "]")
	default:
		b.WriteString(line)
	}
}

func endItem(b *strings.Builder, i, n int) {
	if i < n-1 {
		b.WriteByte(',')
	}
	b.WriteByte('\n')
}

// compact returns v on one line, with a space after each colon and comma, and with <, > and &
// unescaped.
func compact(v any) string {
	switch v := v.(type) {
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, compact(key)+": "+compact(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, 0, len(v))
		for _, item := range v {
			parts = append(parts, compact(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// field returns the value at a path of the form .a.b.0.c. The path "." is the whole. In a key, ~
// stands for a dot. Items of an array are named by index, or as NAME=VALUE by a field of theirs or
// of their metadata. A * stands for every item of an array, and the value is the array of the
// results.
func field(v any, path string) (any, bool) {
	keys := strings.Split(strings.TrimPrefix(path, "."), ".")
	for i, key := range keys {
		if key == "" {
			continue
		}
		if items, is := v.([]any); is && key == "*" {
			found := []any{}
			for _, item := range items {
				if value, ok := field(item, strings.Join(keys[i+1:], ".")); ok {
					found = append(found, value)
				}
			}
			return found, true
		}
		switch parent := v.(type) {
		case map[string]any:
			value, ok := parent[strings.ReplaceAll(key, "~", ".")]
			if !ok {
				return nil, false
			}
			v = value
		case []any:
			i := itemIndex(parent, key)
			if i < 0 {
				return nil, false
			}
			v = parent[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// itemIndex returns the index of the item that key names; negative if there is none.
func itemIndex(items []any, key string) int {
	name, value, named := strings.Cut(key, "=")
	if !named {
		i, err := strconv.Atoi(key)
		if err != nil || i >= len(items) {
			return -1
		}
		return i
	}
	value = strings.ReplaceAll(value, "~", ".")
	return slices.IndexFunc(items, func(item any) bool {
		have, found := field(item, name)
		if !found {
			have, found = field(item, "metadata."+name)
		}
		return found && have == value
	})
}
