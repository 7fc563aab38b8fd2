package jsonpatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A Patch is a list of operations, applied in order.
type Patch []Operation

// An Operation is one step of a patch: the members of its JSON object.
type Operation map[string]*json.RawMessage

// MaxCopy limits the JSON, in bytes, that all copy operations of one patch copy together.
const MaxCopy = 3 << 20

// ErrTestFailed is the error of Apply if the value of a test operation differs from the value in
// the document.
var ErrTestFailed = errors.New("test failed")

var errMissing = errors.New("missing value")

// Decode decodes a patch. It returns the error of encoding/json if data is not a list of objects.
func Decode(data []byte) (Patch, error) {
	var p Patch
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	return p, nil
}

// Apply returns the document with the patch applied. It returns the context's error if the context
// ends before the last operation, an error that wraps [ErrTestFailed] if a test fails, and other
// errors for operations that cannot be applied or that copy more than [MaxCopy].
//
// Apply calls copied with the JSON of each copy before it adds the copy to the document. copied
// must not retain its argument; Apply returns its error unchanged. A nil copied allows all copies.
func (p Patch) Apply(ctx context.Context, doc []byte, copied func(data []byte) error) ([]byte, error) {
	t, err := newText(doc)
	if err != nil {
		return nil, err
	}
	a := application{root: t.root().open(), weigh: copied}
	if a.root == nil {
		return nil, errors.New("the document is neither an object nor a list")
	}
	for _, op := range p {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := a.apply(op); err != nil {
			return nil, err
		}
	}
	return (&node{inside: a.root}).appendTo(nil, 0)
}

// application is the state of Apply.
type application struct {
	root   container
	copied int // bytes
	weigh  func(copied []byte) error
}

func (a *application) apply(op Operation) error {
	switch kind := op.kind(); kind {
	case "add":
		return a.add(op)
	case "remove":
		return a.remove(op)
	case "replace":
		return a.replace(op)
	case "move":
		return a.move(op)
	case "test":
		return a.test(op)
	case "copy":
		return a.copy(op)
	default:
		//lint:ignore ST1005 the words of the library that Kubernetes uses
		return fmt.Errorf("Unexpected kind: %s", kind)
	}
}

func (a *application) add(op Operation) error {
	path, err := op.path()
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", errMissing)
	}
	in, key := a.find(path)
	if in == nil {
		return fmt.Errorf("add operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	value, err := op.value()
	if err != nil {
		return err
	}
	if err := in.add(key, value); err != nil {
		return fmt.Errorf("error in add for path: '%s': %w", path, err)
	}
	return nil
}

func (a *application) remove(op Operation) error {
	path, err := op.path()
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", errMissing)
	}
	in, key := a.find(path)
	if in == nil {
		return fmt.Errorf("remove operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := in.remove(key); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (a *application) replace(op Operation) error {
	path, err := op.path()
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	value, err := op.value()
	if err != nil {
		return err
	}
	if path == "" {
		var root container
		if value != nil {
			root = value.open()
		}
		if root == nil {
			return errors.New("replace operation value must be object or array: %!w(<nil>)") // the library's words
		}
		a.root = root
		return nil
	}
	in, key := a.find(path)
	if in == nil {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", path, errMissing)
	}
	if _, err := in.get(key); err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, errMissing)
	}
	if err := in.set(key, value); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (a *application) move(op Operation) error {
	from, err := op.from()
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	in, key := a.find(from)
	if in == nil {
		return fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	value, err := in.get(key)
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	if err := in.remove(key); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	path, err := op.path()
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	in, key = a.find(path)
	if in == nil {
		return fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if err := in.add(key, value); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", path, err)
	}
	return nil
}

func (a *application) test(op Operation) error {
	path, err := op.path()
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	want, err := op.value()
	if err != nil {
		return err
	}
	var got *node
	if path == "" {
		got = &node{inside: a.root}
	} else {
		in, key := a.find(path)
		if in == nil {
			return fmt.Errorf("test operation does not apply: is missing path: %s: %w", path, errMissing)
		}
		if got, err = in.get(key); err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", path, err)
		}
	}
	var same bool
	switch {
	case got == nil:
		same = want.isNull()
	case want != nil:
		same = got.equal(want)
	}
	if !same {
		return fmt.Errorf("testing value %s failed: %w", path, ErrTestFailed)
	}
	return nil
}

func (a *application) copy(op Operation) error {
	from, err := op.from()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	in, key := a.find(from)
	if in == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	value, err := in.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := op.path()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", errMissing)
	}
	in, key = a.find(path)
	if in == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if value != nil {
		data, err := value.appendTo(nil, 0)
		if err != nil {
			return fmt.Errorf("error while performing deep copy: %w", err)
		}
		if a.copied += len(data); a.copied > MaxCopy {
			//lint:ignore ST1005 the words of the library that Kubernetes uses
			return fmt.Errorf("Unable to complete the copy, the accumulated size increase of copy is %d, exceeding the limit %d", a.copied, MaxCopy)
		}
		if a.weigh != nil {
			if err := a.weigh(data); err != nil {
				return err
			}
		}
		value = (&text{data: data}).root()
	}
	if err := in.add(key, value); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

// find returns the container and the key in it that a path refers to. The container is nil if the
// document has none there.
func (a *application) find(path string) (container, string) {
	_, path, ok := strings.Cut(path, "/")
	if !ok {
		return nil, ""
	}
	in := a.root
	for {
		token, rest, more := strings.Cut(path, "/")
		key := unescape(token)
		if !more {
			return in, key
		}
		next, err := in.get(key)
		if err != nil || next == nil {
			return nil, ""
		}
		if in = next.open(); in == nil {
			return nil, ""
		}
		path = rest
	}
}

// unescape decodes a reference token of RFC 6901.
func unescape(token string) string {
	if !strings.Contains(token, "~") {
		return token
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

func (op Operation) kind() string {
	var kind string
	if raw := op["op"]; raw == nil || json.Unmarshal(*raw, &kind) != nil {
		return "unknown"
	}
	return kind
}

func (op Operation) path() (string, error) {
	raw := op["path"]
	if raw == nil {
		return "", fmt.Errorf("operation missing path field: %w", errMissing)
	}
	return textOf(*raw)
}

func (op Operation) from() (string, error) {
	raw := op["from"]
	if raw == nil {
		return "", fmt.Errorf("operation, missing from field: %w", errMissing)
	}
	return textOf(*raw)
}

func textOf(raw json.RawMessage) (string, error) {
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// value returns the value of the operation, or nil if it has none.
func (op Operation) value() (*node, error) {
	raw, ok := op["value"]
	switch {
	case !ok:
		return nil, nil
	case raw == nil:
		return &node{}, nil
	}
	t, err := newText(*raw)
	if err != nil {
		return nil, err
	}
	return t.root(), nil
}
