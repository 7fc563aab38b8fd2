package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A JSONPatchOp is one operation of a JSON patch (RFC 6902).
type JSONPatchOp struct {
	Operation string // add, remove, replace
	Path      string // a JSON pointer, as "/spec/containers/0/image"
	Value     any    // the value to add or to replace with; nil is null
}

// MarshalJSON encodes the value of all operations that have one, null included.
func (o JSONPatchOp) MarshalJSON() ([]byte, error) {
	op := map[string]any{"op": o.Operation, "path": o.Path}
	if o.Value != nil || o.Operation == opAdd || o.Operation == opReplace {
		op["value"] = o.Value
	}
	return json.Marshal(op)
}

const (
	opAdd     = "add"
	opRemove  = "remove"
	opReplace = "replace"
)

// CreatePatch returns the patch that turns original into current, both in JSON.
func CreatePatch(original, current []byte) ([]JSONPatchOp, error) {
	was, err := decodeJSON(original)
	if err != nil {
		return nil, fmt.Errorf("the original: %w", err)
	}
	is, err := decodeJSON(current)
	if err != nil {
		return nil, fmt.Errorf("the current: %w", err)
	}
	var d difference
	d.value("", was, was, is)
	return d.ops, nil
}

// createTypedPatch returns the patch of raw for the change from before to after, two states of the
// Go type. Fields of raw that the type does not have, and zero values that it omits, are not
// changed.
func createTypedPatch(raw []byte, before, after any) ([]JSONPatchOp, error) {
	var docs [3]any
	for i, source := range []any{json.RawMessage(raw), before, after} {
		text, err := json.Marshal(source)
		if err != nil {
			return nil, fmt.Errorf("encoding %T: %w", source, err)
		}
		if docs[i], err = decodeJSON(text); err != nil {
			return nil, err
		}
	}
	var d difference
	d.value("", docs[0], docs[1], docs[2])
	return d.ops, nil
}

// decodeJSON decodes a document and keeps numbers as they are written.
func decodeJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one document")
	}
	return v, nil
}

// A difference is collected by walking three documents in step: raw, which is patched; before, raw
// as the Go type decodes it; and after, the same object after the change. Only fields of before can
// be removed.
type difference struct{ ops []JSONPatchOp }

func (d *difference) add(op, path string, value any) {
	d.ops = append(d.ops, JSONPatchOp{Operation: op, Path: path, Value: value})
}

func (d *difference) value(path string, raw, before, after any) {
	switch after := after.(type) {
	case map[string]any:
		if raw, ok := raw.(map[string]any); ok {
			before, _ := before.(map[string]any)
			d.object(path, raw, before, after)
			return
		}
	case []any:
		raw, ok := raw.([]any)
		before, same := before.([]any)
		if ok && same && len(raw) == len(before) {
			d.array(path, raw, before, after)
			return
		}
	}
	if !reflect.DeepEqual(raw, after) {
		d.add(opReplace, path, after)
	}
}

func (d *difference) object(path string, raw, before, after map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		at := path + "/" + escapePointer.Replace(key)
		if _, kept := after[key]; kept {
			d.value(at, raw[key], before[key], after[key])
		} else if _, seen := before[key]; seen {
			d.add(opRemove, at, nil)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, had := raw[key]; !had {
			d.add(opAdd, path+"/"+escapePointer.Replace(key), after[key])
		}
	}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// array matches the elements that before and after have in common at both ends, and the ones
// between by position. An element that is added or removed therefore leaves its neighbours as they
// are, including their fields that only raw has.
func (d *difference) array(path string, raw, before, after []any) {
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	shorter := min(len(before), len(after))
	head := 0
	for head < shorter && reflect.DeepEqual(before[head], after[head]) {
		head++
	}
	tail := 0
	for tail < shorter-head && reflect.DeepEqual(before[len(before)-1-tail], after[len(after)-1-tail]) {
		tail++
	}
	for i := range shorter - tail {
		d.value(at(i), raw[i], before[i], after[i])
	}
	for i := tail; i > 0; i-- {
		b := len(before) - i
		d.value(at(b), raw[b], before[b], after[len(after)-i])
	}
	for i := len(before) - tail - 1; i >= shorter-tail; i-- {
		d.add(opRemove, at(i), nil)
	}
	for i := shorter - tail; i < len(after)-tail; i++ {
		d.add(opAdd, at(i), after[i])
	}
}
