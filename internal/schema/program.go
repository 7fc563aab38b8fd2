package schema

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Program is the compiled schema of one version of a custom resource.
type Program struct {
	root        *node
	preserve    bool // nothing is pruned: the CRD preserves unknown fields, or has no schema
	fingerprint uint64
	conditions  func() *conditionTree // evaluates the conditions; nil if the schema has none
}

// Fingerprint identifies the program by content: programs with the same fingerprint normalise and
// validate alike. It is stable across processes. Descriptions, titles and examples do not affect
// it.
func (p *Program) Fingerprint() uint64 { return p.fingerprint }

// Normalise does Prune, Coerce and Default, in this order and in as few passes as the schema
// allows. It is for every object that enters the server. The error is that of Coerce; obj is then
// incomplete and must not be used.
func (p *Program) Normalise(obj map[string]any, unknown *[]string) error {
	if p.preserve || p.root.embeds {
		p.Prune(obj, unknown)
		if err := p.Coerce(obj, unknown); err != nil {
			return err
		}
		p.Default(obj)
		return nil
	}
	p.prune(obj, unknown, true)
	return nil
}

// Complete is Normalise for the result of an apply. Nulls that the schema does not allow are
// replaced by defaults if there are any; otherwise, they stay if the schema has a type, and
// Validate rejects them.
func (p *Program) Complete(obj map[string]any) error {
	if !p.preserve {
		w := pruner{typed: true}
		w.object(obj, p.root, modeOf(p.root), nil)
	}
	if err := p.Coerce(obj, nil); err != nil {
		return err
	}
	p.Default(obj)
	return nil
}

// Prune removes fields that the schema does not specify, and nulls that the schema neither allows
// nor replaces by a default. If unknown is not nil, Prune appends the paths of removed fields in
// lexical order, in the format of Kubernetes' strict field validation; removed nulls are not
// included.
func (p *Program) Prune(obj map[string]any, unknown *[]string) {
	if !p.preserve {
		p.prune(obj, unknown, false)
	}
}

func (p *Program) prune(obj map[string]any, unknown *[]string, fill bool) {
	w := pruner{unknown: unknown, fill: fill}
	before := 0
	if unknown != nil {
		before = len(*unknown)
	}
	w.object(obj, p.root, modeOf(p.root), nil)
	if unknown != nil {
		slices.Sort((*unknown)[before:])
	}
}

// Coerce converts the metadata of embedded resources to the form of ObjectMeta. Fields that
// ObjectMeta does not have are removed and added to unknown, as in Prune. A value of the wrong type
// is a *field.Error: the caller must reject the object as undecodable.
func (p *Program) Coerce(obj map[string]any, unknown *[]string) error {
	w := coercer{unknown: unknown}
	return w.run(obj, p.root)
}

// CoerceStored is Coerce for objects in the store: malformed fields are dropped, and not rejected.
func (p *Program) CoerceStored(obj map[string]any) {
	w := coercer{drop: true}
	_ = w.run(obj, p.root) // no error: malformed fields are dropped
}

// Default sets defaults for fields that are absent, or that are null although the schema does not
// allow it.
func (p *Program) Default(obj map[string]any) { fill(obj, p.root) }

// Completes reports whether Default would add a field at the root.
func (p *Program) Completes(obj map[string]any) bool {
	if !p.root.fills {
		return false
	}
	return slices.ContainsFunc(p.root.fields, func(f property) bool {
		_, found := obj[f.name]
		return !found && f.node.fallback != nil
	})
}

// Validate validates an object that is about to be created. The errors are in Kubernetes' order:
// those of the schema's rules, more, which the caller has found, those of embedded resources, and
// those of keys of lists.
//
// If the context ends, Validate returns only some of the errors, and so do ValidateUpdate and
// ValidateStatus.
func (p *Program) Validate(ctx context.Context, obj map[string]any, more ...*field.Error) field.ErrorList {
	errs := append(p.root.explain(ctx, nil, obj, nil), more...)
	if ctx.Err() != nil {
		return errs
	}
	errs = append(errs, validateEmbedded(obj, p.root, nil)...)
	return append(errs, validateLists(obj, p.root, nil)...)
}

// ValidateUpdate validates an object that is about to replace old. It drops errors about unchanged
// values (KEP-4008), and those about keys of lists if old has any of these.
func (p *Program) ValidateUpdate(ctx context.Context, obj, old map[string]any, more ...*field.Error) field.ErrorList {
	errs := append(p.root.explain(ctx, nil, obj, &correlation{node: p.root, old: old, root: true}), more...)
	if ctx.Err() != nil {
		return errs
	}
	errs = append(errs, validateEmbedded(obj, p.root, nil)...)
	return append(errs, p.validateListsUpdate(obj, old)...)
}

// ValidateStatus validates an update of the status subresource: of the schema's rules, only those
// for status apply.
func (p *Program) ValidateStatus(ctx context.Context, obj, old map[string]any, more ...*field.Error) field.ErrorList {
	var errs field.ErrorList
	status := p.root.field("status")
	if v, ok := obj["status"]; ok && status != nil {
		errs = status.explain(ctx, field.NewPath("status"), v, &correlation{node: status, old: old["status"], root: true})
	}
	errs = append(errs, more...)
	return append(errs, p.validateListsUpdate(obj, old)...)
}

func (p *Program) validateListsUpdate(obj, old map[string]any) field.ErrorList {
	errs := validateLists(obj, p.root, nil)
	if len(errs) > 0 && len(validateLists(old, p.root, nil)) > 0 {
		return nil
	}
	return errs
}
