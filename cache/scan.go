package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoded is an object as the server sends it: JSON, or the message of its type in protobuf. The
// bytes are immutable.
type encoded struct {
	bytes    []byte
	protobuf bool
	isStatus bool // in protobuf: a metav1.Status
}

// identity is the part of an object that the cache needs.
type identity struct {
	namespace, name, uid, revision string
	deleting                       bool
}

// scanned is the result of a scan: parts of the bytes of an object.
type scanned struct {
	identity
	metadata []byte // the whole of metav1.ObjectMeta
}

// scan reads the metadata of an object without decoding it.
func (o encoded) scan() (s scanned, err error) {
	if o.protobuf {
		// A message may come in parts, which are merged.
		err = eachField(o.bytes, func(number protowire.Number, value []byte) error {
			if number != 1 {
				return nil
			}
			s.metadata = value
			return eachField(value, func(number protowire.Number, value []byte) error {
				switch number {
				case 1:
					s.name = view(value)
				case 3:
					s.namespace = view(value)
				case 5:
					s.uid = view(value)
				case 6:
					s.revision = view(value)
				case 9:
					s.deleting = true
				}
				return nil
			})
		})
		return s, err
	}
	err = eachMember(o.bytes, func(name string, value []byte) error {
		if name != "metadata" || isNull(value) {
			return nil
		}
		s.metadata = value
		return eachMember(value, func(name string, value []byte) error {
			if name == "deletionTimestamp" {
				s.deleting = !isNull(value)
				return nil
			}
			var field *string
			switch name {
			case "namespace":
				field = &s.namespace
			case "name":
				field = &s.name
			case "uid":
				field = &s.uid
			case "resourceVersion":
				field = &s.revision
			default:
				return nil
			}
			if isNull(value) {
				return nil
			}
			text, err := jsonString(value)
			*field = text
			return err
		})
	})
	return s, err
}

// labels reads the labels of an object's metadata.
func (o encoded) labels() (labelSet, error) {
	s, err := o.scan()
	if err != nil {
		return nil, err
	}
	var set labelSet
	if o.protobuf {
		err = eachField(s.metadata, func(number protowire.Number, value []byte) error {
			if number != 11 {
				return nil
			}
			var l label
			err := eachField(value, func(number protowire.Number, value []byte) error {
				switch number {
				case 1:
					l.name = view(value)
				case 2:
					l.value = view(value)
				}
				return nil
			})
			set = append(set, l)
			return err
		})
		return set, err
	}
	if s.metadata == nil {
		return nil, nil
	}
	err = eachMember(s.metadata, func(name string, value []byte) error {
		if name != "labels" || isNull(value) {
			return nil
		}
		return eachMember(value, func(name string, value []byte) error {
			text, err := jsonString(value)
			set = append(set, label{name, text})
			return err
		})
	})
	return set, err
}

type label struct{ name, value string }

// labelSet are labels.Labels without a map.
type labelSet []label

func (s labelSet) Lookup(name string) (string, bool) {
	for i := len(s) - 1; i >= 0; i-- { // of two the later counts
		if s[i].name == name {
			return s[i].value, true
		}
	}
	return "", false
}

func (s labelSet) Has(name string) bool {
	_, ok := s.Lookup(name)
	return ok
}

func (s labelSet) Get(name string) string {
	value, _ := s.Lookup(name)
	return value
}

// view returns a string that shares the memory of immutable bytes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

var errJSON = errors.New("invalid JSON")

func isNull(value []byte) bool { return string(value) == "null" }

// jsonString returns the text of a JSON string. It shares memory if the string has no escapes.
func jsonString(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", fmt.Errorf("%w: not a string", errJSON)
	}
	for _, c := range value {
		if c == '\\' || c >= 0x80 || c < ' ' {
			var s string
			err := json.Unmarshal(value, &s)
			return s, err
		}
	}
	return view(value[1 : len(value)-1]), nil
}

// eachMember calls f for the members of a JSON object. It does not validate the values.
func eachMember(object []byte, f func(name string, value []byte) error) error {
	i := skipSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return fmt.Errorf("%w: not an object", errJSON)
	}
	for i = skipSpace(object, i+1); i < len(object); {
		if object[i] == '}' {
			return nil
		}
		end, err := skipValue(object, i)
		if err != nil {
			return err
		}
		name, err := jsonString(object[i:end])
		if err != nil {
			return err
		}
		i = skipSpace(object, end)
		if i == len(object) || object[i] != ':' {
			return fmt.Errorf("%w: no value after %q", errJSON, name)
		}
		i = skipSpace(object, i+1)
		if end, err = skipValue(object, i); err != nil {
			return err
		}
		if err := f(name, object[i:end]); err != nil {
			return err
		}
		i = skipSpace(object, end)
		if i < len(object) && object[i] == ',' {
			i = skipSpace(object, i+1)
		} else if i < len(object) && object[i] != '}' {
			return fmt.Errorf("%w: %q after a value", errJSON, object[i])
		}
	}
	return fmt.Errorf("%w: an object without end", errJSON)
}

// eachElement calls f for the elements of a JSON array, or not at all for null.
func eachElement(array []byte, f func([]byte) error) error {
	if isNull(array) {
		return nil
	}
	i := skipSpace(array, 0)
	if i == len(array) || array[i] != '[' {
		return fmt.Errorf("%w: not an array", errJSON)
	}
	for i = skipSpace(array, i+1); i < len(array); {
		if array[i] == ']' {
			return nil
		}
		end, err := skipValue(array, i)
		if err != nil {
			return err
		}
		if err := f(array[i:end]); err != nil {
			return err
		}
		i = skipSpace(array, end)
		if i < len(array) && array[i] == ',' {
			i = skipSpace(array, i+1)
		} else if i < len(array) && array[i] != ']' {
			return fmt.Errorf("%w: %q after an element", errJSON, array[i])
		}
	}
	return fmt.Errorf("%w: an array without end", errJSON)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, fmt.Errorf("%w: no value", errJSON)
	}
	switch b[i] {
	case '"':
		return skipText(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				end, err := skipText(b, i)
				if err != nil {
					return 0, err
				}
				i = end - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1, nil
				}
			}
		}
		return 0, fmt.Errorf("%w: a value without end", errJSON)
	}
	begin := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] != ':' && skipSpace(b, i) == i {
		i++
	}
	if i == begin {
		return 0, fmt.Errorf("%w: unexpected %q", errJSON, b[i])
	}
	return i, nil
}

func skipText(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("%w: a string without end", errJSON)
}
