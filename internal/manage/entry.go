package manage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// An entry of metadata.managedFields: who owns what.
type entry struct {
	identity
	version string // the apiVersion that the fields are of
	time    any    // as the object holds it: a string, rarely null
	timed   bool
	seconds int64 // the time, for sorting
	fields  fields
	raw     Tree // the entry in the object, if it says all this and nothing else
	fresh   bool // of this very request: numbers in the fields have not been stored yet
	fitting bool // the fields fit the Manager's own schema
}

// identity tells entries apart. Updates in two versions are two entries, but somebody applies in one version at a time.
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

// String is what the library identifies a manager by. It decides the order of managers in messages.
func (id identity) String() string {
	b, err := json.Marshal(metav1.ManagedFieldsEntry{
		Manager:     id.manager,
		Operation:   metav1.ManagedFieldsOperationType(id.operation()),
		APIVersion:  id.version,
		Subresource: id.subresource,
	})
	if err != nil { // strings
		return ""
	}
	return string(b)
}

// managed are the entries of an object, no two with the same identity, and in no order.
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

// entriesOf returns the entries of an object, in the form in which they are written. found tells whether the object has a
// list of entries, empty or not; one that cannot be read counts as none.
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
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &typed); err != nil {
				return nil, false
			}
			var err error
			if m, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&typed); err != nil {
				return nil, false
			}
		}
		list[i] = m
	}
	return list, true
}

// isTidy tells whether an entry is as it would be written.
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

// seconds reads a time of the form in which entries have it.
func seconds(s string) (unix int64, ok bool) {
	if len(s) != len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.Unix(), err == nil && !t.IsZero()
}

// isReset tells whether entries ask for a fresh start: an empty list, or one empty entry.
func isReset(list []Tree, found bool) bool {
	return found && (len(list) == 0 || len(list) == 1 && len(list[0]) == 0)
}

// decode reads entries, whose sets it brings into the form of fields. Sets that are of a version are fitting if they fit
// its schema n; no set is adapted to a schema yet.
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

// unique drops the entries that another one with the same identity follows.
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
		n = nil // adapted later, when it is known whether the version is still there
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

// write puts the entries into an object, in order.
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
