package endpoint

import (
	"bytes"

	"sigs.k8s.io/yaml"
)

// An indenter indents JSON by two spaces a level, as json.Indent does, but in pieces. It expects
// valid JSON. Indentation beyond mostSpaces is left out.
type indenter struct {
	depth  int
	opened bool // an object or list has begun and is empty so far
	text   bool // inside a string
	escape bool // after a backslash
	read   int  // bytes of all pieces
	spaces int  // bytes that were added
}

// mostSpaces is the maximum indentation, in bytes, of JSON of the given size. Objects of ordinary
// shape need a third of it at most; an object of 1 MB that nests thousands of levels deep would
// become gigabytes.
func mostSpaces(bytes int) int { return 64<<10 + 32*bytes }

// append appends the next piece to dst.
func (in *indenter) append(dst, piece []byte) []byte {
	in.read += len(piece)
	for len(piece) > 0 {
		if in.text {
			n := in.textIn(piece)
			dst, piece = append(dst, piece[:n]...), piece[n:]
			continue
		}
		b := piece[0]
		piece = piece[1:]
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '}', ']':
			if !in.opened {
				in.depth--
				dst = in.newline(dst)
			}
			in.opened = false
			dst = append(dst, b)
			continue
		}
		if in.opened {
			in.opened = false
			in.depth++
			dst = in.newline(dst)
		}
		dst = append(dst, b)
		switch b {
		case '"':
			in.text = true
		case '{', '[':
			in.opened = true
		case ',':
			dst = in.newline(dst)
		case ':':
			dst = append(dst, ' ')
		}
	}
	return dst
}

// textIn returns the length of the part of a piece that belongs to the string in progress.
func (in *indenter) textIn(piece []byte) int {
	for i := 0; i < len(piece); i++ {
		switch {
		case in.escape:
			in.escape = false
		case piece[i] == '\\':
			in.escape = true
		case piece[i] == '"':
			in.text = false
			return i + 1
		default:
			next := bytes.IndexAny(piece[i:], "\"\\")
			if next < 0 {
				return len(piece)
			}
			i += next - 1
		}
	}
	return len(piece)
}

func (in *indenter) newline(dst []byte) []byte {
	if in.spaces += 1 + 2*in.depth; in.spaces > mostSpaces(in.read) {
		in.spaces -= 1 + 2*in.depth
		return dst
	}
	dst = append(dst, '\n')
	for range in.depth {
		dst = append(dst, "  "...)
	}
	return dst
}

// toYAML converts an object, or a list with one object, from JSON to YAML. If indentation would
// make it far larger, it returns the JSON, which is valid YAML.
func toYAML(data []byte) ([]byte, error) {
	if !sprawls(data) {
		return yaml.JSONToYAML(escapeBreaks(data))
	}
	if inside, ok := bytes.CutPrefix(data, []byte("[")); ok {
		data = append([]byte("- "), inside[:len(inside)-1]...)
	}
	return append(bytes.Clone(escapeBreaks(data)), '\n'), nil
}

// escapeBreaks escapes characters that end a line in YAML, but not in JSON.
func escapeBreaks(data []byte) []byte {
	for character, escaped := range map[string]string{"\u0085": `\u0085`, "\u2028": `\u2028`, "\u2029": `\u2029`} {
		if bytes.Contains(data, []byte(character)) {
			data = bytes.ReplaceAll(data, []byte(character), []byte(escaped))
		}
	}
	return data
}

// sprawls reports whether the conversion to YAML would indent JSON by more than mostSpaces. YAML
// indents lines of text, too.
func sprawls(data []byte) bool {
	depth, spaces, most := 0, 0, mostSpaces(len(data))
	for i := 0; i < len(data) && spaces <= most; i++ {
		switch data[i] {
		case '"':
			end := skipString(data, i)
			spaces += 2 * depth * bytes.Count(data[i:end], []byte(`\n`))
			i = end - 1
		case '{', '[':
			depth++
			spaces += 2 * depth
		case '}', ']':
			depth--
		case ',':
			spaces += 2 * depth
		}
	}
	return spaces > most
}
