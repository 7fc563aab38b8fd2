package crd

import (
	"context"
	"crypto/sha256"
	"maps"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// verdicts remembers, by content, which sets of schemas obey all rules for new definitions. The
// validation of a large schema with many CEL rules takes seconds, and most updates of a definition
// do not change its schemas.
//
// The key of a set is a cryptographic hash, so that clients cannot make two sets with the same key.
// It remembers the newest maxVerdicts to 2*maxVerdicts sets, at about 100 bytes each. It is safe
// for concurrent use.
type verdicts struct {
	mu sync.Mutex
	// recent and older map the hash of a set to whether it is valid. A full recent becomes older.
	recent, older map[schemaHash]bool
}

type schemaHash [sha256.Size]byte

const maxVerdicts = 1024

func (v *verdicts) of(hash schemaHash) (valid, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if valid, known = v.recent[hash]; known {
		return valid, true
	}
	if valid, known = v.older[hash]; known {
		v.putLocked(hash, valid)
	}
	return valid, known
}

func (v *verdicts) put(hash schemaHash, valid bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.putLocked(hash, valid)
}

func (v *verdicts) putLocked(hash schemaHash, valid bool) {
	if len(v.recent) >= maxVerdicts {
		v.older, v.recent = v.recent, nil
	}
	if v.recent == nil {
		v.recent = map[schemaHash]bool{}
	}
	v.recent[hash] = valid
}

// hashSchemas returns a hash of everything that the rules on the schemas of a v1 definition depend
// on: the schemas themselves, whether the version has a status subresource, and the selectable
// fields, which must be fields of the schema. ok is false if the rules also depend on something
// else: spec.preserveUnknownFields relaxes them.
func hashSchemas(obj resource.Tree) (hash schemaHash, ok bool) {
	spec, _ := obj["spec"].(map[string]any)
	if preserve, stated := spec["preserveUnknownFields"]; stated && preserve != false {
		return hash, false
	}
	var parts []any
	for _, v := range versionsOf(obj) {
		subresources, _ := v["subresources"].(map[string]any)
		_, hasStatus := subresources["status"]
		parts = append(parts, []any{v["schema"], hasStatus, v["selectableFields"]})
	}
	data, err := object.AppendJSON(nil, parts)
	if err != nil || len(parts) == 0 {
		return hash, false
	}
	return sha256.Sum256(data), true
}

// withoutKnownSchemas returns a copy of a definition in which all schemas are empty, without
// selectable fields.
func withoutKnownSchemas(obj resource.Tree) resource.Tree {
	if obj == nil {
		return nil
	}
	spec, _ := obj["spec"].(map[string]any)
	spec = maps.Clone(spec)
	var versions []any
	for _, v := range versionsOf(obj) {
		v = maps.Clone(v)
		delete(v, "selectableFields")
		if v["schema"] != nil {
			v["schema"] = resource.Tree{"openAPIV3Schema": resource.Tree{"type": "object"}}
		}
		versions = append(versions, v)
	}
	spec["versions"] = versions
	obj = maps.Clone(obj)
	obj["spec"] = spec
	return obj
}

// validate validates a definition. It leaves out schemas that are known to be valid: valid ones
// need none of the exemptions that updates of old definitions have.
func (m *kindModel) validate(ctx context.Context, obj, old resource.Tree) field.ErrorList {
	hash, ok := hashSchemas(obj)
	if !ok {
		return m.judge(ctx, obj, old)
	}
	valid, known := m.verdicts.of(hash)
	if !known {
		errs := m.judge(ctx, obj, nil)
		if ctx.Err() != nil {
			return errs // the validation may have stopped before the first error
		}
		valid = !concernSchemas(errs)
		m.verdicts.put(hash, valid)
		if old == nil {
			return errs
		}
	}
	if valid && len(m.judge(ctx, withoutKnownSchemas(obj), withoutKnownSchemas(old))) == 0 {
		return nil
	}
	return m.judge(ctx, obj, old) // again with the schemas, because errors can contain them
}

// concernSchemas reports whether one of the errors may be about a schema.
func concernSchemas(errs field.ErrorList) bool {
	for _, err := range errs {
		if strings.HasPrefix(err.Field, "spec") {
			return true
		}
	}
	return false
}
