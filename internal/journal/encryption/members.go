package encryption

import "bytes"

// members calls yield for each member of a JSON object without space between its tokens. Names are
// passed without their quotes, and with escapes as written. It returns false if raw does not have
// this form; it does not check values, so true does not mean that they are valid.
func members(raw []byte, yield func(name, value []byte)) bool {
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return false
	}
	if raw = raw[1:]; len(raw) == 1 {
		return true
	}
	for {
		name := text(raw)
		if name < 2 || name >= len(raw) || raw[name] != ':' {
			return false
		}
		value := name + 1 + length(raw[name+1:])
		if value == name+1 || value >= len(raw) {
			return false
		}
		yield(raw[1:name-1], raw[name+1:value])
		end := raw[value]
		raw = raw[value+1:]
		if end != ',' {
			return end == '}' && len(raw) == 0
		}
	}
}

// length returns the length of the value at the start of raw; zero if there is none.
func length(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			n := text(raw[i:])
			if n == 0 {
				return 0
			}
			if i += n - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			switch depth {
			case 0:
				return i // after a number or a literal
			case 1:
				return i + 1
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return 0
}

// text returns the length of the string at the start of raw; zero if there is none.
func text(raw []byte) int {
	if len(raw) == 0 || raw[0] != '"' {
		return 0
	}
	for at := 1; ; {
		n := bytes.IndexByte(raw[at:], '"')
		if n < 0 {
			return 0
		}
		at += n + 1
		escapes := 0
		for raw[at-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}
