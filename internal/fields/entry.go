package fields

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	codec "github.com/kapok-dev/kapok/client/typed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An entry of metadata.managedFields contains a manager and the fields that it owns.
type entry struct {
	identity
	version string // the apiVersion of the fields
	time    any    // as in the object: a string, rarely null
	timed   bool
	seconds int64 // the time, for sorting
	fields  fields
	raw     Tree // the entry in the object, if it has exactly this content
	fresh   bool // from this request: numbers in the fields have not been stored yet
	fitting bool // the fields fit the Manager's own schema
}

// identity identifies an entry. Updates in two versions are two entries; a manager has only one
// entry for apply.
type identity struct {
	manager, subresource string
	apply                bool
	version              string // "" for apply
}

func newIdentity(manager, subresource, version string, apply bool) identity {
	if apply {
		version = ""
	}
	return identity{manager, subresource, apply, version}
}

func (id identity) operation() string {
	if id.apply {
		return string(metav1.ManagedFieldsOperationApply)
	}
	return string(metav1.ManagedFieldsOperationUpdate)
}

// String returns the library's identifier of a manager, which determines the order of managers in
// messages.
func (id identity) String() string {
	b, err := json.Marshal(metav1.ManagedFieldsEntry{
		Manager:     id.manager,
		Operation:   metav1.ManagedFieldsOperationType(id.operation()),
		APIVersion:  id.version,
		Subresource: id.subresource,
	})
	if err != nil { // cannot happen: all fields are strings
		return ""
	}
	return string(b)
}

// managed are the entries of an object, in any order. No two have the same identity.
type managed []entry

func (m managed) find(id identity) *entry {
	for i := range m {
		if m[i].identity == id {
			return &m[i]
		}
	}
	return nil
}

func (m managed) without(id identity) managed {
	return slices.DeleteFunc(m, func(e entry) bool { return e.identity == id })
}

// own sets the fields of an entry.
func (e *entry) own(set fields) { e.fields, e.raw = set, nil }

// stamp sets the time of an entry.
func (e *entry) stamp(at time.Time) {
	e.time, e.seconds, e.timed, e.raw = at.UTC().Format(time.RFC3339), at.Unix(), true, nil
}

// entriesOf returns the entries of an object in the form in which they are written. found reports
// whether the object has a valid list of entries, which may be empty.
func entriesOf(obj Tree) (list []Tree, found bool) {
	meta, _ := obj["metadata"].(map[string]any)
	items, ok := meta["managedFields"].([]any)
	if !ok {
		return nil, false
	}
	list = make([]Tree, len(items))
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		if !isTidy(m) {
			var typed metav1.ManagedFieldsEntry
			if err := codec.FromTree(m, &typed); err != nil {
				return nil, false
			}
			var err error
			if m, err = codec.ToTree(&typed); err != nil {
				return nil, false
			}
		}
		list[i] = m
	}
	return list, true
}

// isTidy reports whether an entry has the form in which it is written.
func isTidy(m Tree) bool {
	for name, v := range m {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			if s, ok := v.(string); !ok || s == "" {
				return false
			}
		case "time":
			s, ok := v.(string)
			if _, tidy := seconds(s); !ok || !tidy {
				return false
			}
		case "fieldsV1":
			if f, ok := v.(map[string]any); !ok || f == nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// seconds parses a time in the format of entries.
func seconds(s string) (unix int64, ok bool) {
	if len(s) != len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.Unix(), err == nil && !t.IsZero()
}

// isReset reports whether entries reset managedFields: an empty list, or one empty entry.
func isReset(list []Tree, found bool) bool {
	return found && (len(list) == 0 || len(list) == 1 && len(list[0]) == 0)
}

// decode decodes entries, and converts their sets to the form of fields. A set of the given version
// is fitting if it fits the schema n; decode does not adapt sets to a schema.
func decode(list []Tree, version string, n *node) (managed, error) {
	out := make(managed, 0, len(list)+1)
	for i, m := range list {
		e, err := decodeEntry(i, m, version, n)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out.unique(), nil
}

// unique keeps only the last of the entries with the same identity.
func (m managed) unique() managed {
	last := -1
	if len(m) > few {
		index := make(map[identity]int, len(m))
		for i := range m {
			index[m[i].identity] = i
		}
		if len(index) == len(m) {
			return m
		}
		return slices.DeleteFunc(m, func(e entry) bool { last++; return index[e.identity] != last })
	}
	out := m[:0]
	for i := range m {
		if m[i+1:].find(m[i].identity) == nil {
			out = append(out, m[i])
		}
	}
	return out
}

func decodeEntry(i int, m Tree, version string, n *node) (e entry, err error) {
	operation, _ := m["operation"].(string)
	switch metav1.ManagedFieldsOperationType(operation) {
	case metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate:
	default:
		return e, fmt.Errorf("operation must be `Apply` or `Update`")
	}
	if e.version, _ = m["apiVersion"].(string); e.version == "" {
		return e, fmt.Errorf("apiVersion must not be empty")
	}
	switch fieldsType, _ := m["fieldsType"].(string); fieldsType {
	case "FieldsV1":
	case "":
		return e, fmt.Errorf("missing fieldsType in managed fields entry %d", i)
	default:
		return e, fmt.Errorf("invalid fieldsType %q in managed fields entry %d", fieldsType, i)
	}
	manager, _ := m["manager"].(string)
	subresource, _ := m["subresource"].(string)
	e.identity = newIdentity(manager, subresource, e.version, operation == string(metav1.ManagedFieldsOperationApply))
	if e.time, e.timed = m["time"]; e.timed {
		s, _ := e.time.(string)
		e.seconds, _ = seconds(s)
	}
	e.raw = m
	if e.version != version {
		n = nil // adapted later, if the version still exists
	}
	if set, ok := m["fieldsV1"].(map[string]any); ok && isSettled(n, set, true) {
		e.fields, e.fitting = set, n != nil
		return e, nil
	}
	e.raw = nil
	if e.fields, err = respell(m["fieldsV1"], true); err != nil {
		return e, fmt.Errorf("error decoding versioned set from %v: error decoding set: %w", m, err)
	}
	return e, nil
}

// write sets the entries of an object, in order.
func (m managed) write(obj Tree) {
	if len(m) == 0 {
		dropEntries(obj)
		return
	}
	slices.SortFunc(m, func(a, b entry) int {
		return cmp.Or(
			strings.Compare(a.operation(), b.operation()),
			cmp.Compare(a.seconds, b.seconds),
			strings.Compare(a.manager, b.manager),
			strings.Compare(a.version, b.version),
			strings.Compare(a.subresource, b.subresource),
		)
	})
	list := make([]any, len(m))
	for i := range m {
		list[i] = m[i].encode()
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = Tree{}
		obj["metadata"] = meta
	}
	meta["managedFields"] = list
}

func (e *entry) encode() Tree {
	if e.raw != nil {
		return e.raw
	}
	out := make(Tree, 7)
	out["operation"], out["apiVersion"], out["fieldsType"], out["fieldsV1"] = e.operation(), e.version, "FieldsV1", e.fields
	if e.manager != "" {
		out["manager"] = e.manager
	}
	if e.subresource != "" {
		out["subresource"] = e.subresource
	}
	if e.timed {
		out["time"] = e.time
	}
	return out
}

// dropEntries removes managedFields from an object.
func dropEntries(obj Tree) {
	if meta, ok := obj["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
}
