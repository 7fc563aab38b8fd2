package schema

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Program is the compiled schema of one version of a custom resource.
type Program struct {
	root        *node
	preserve    bool // nothing is pruned: the CRD preserves unknown fields, or has no schema
	fingerprint uint64
	guard       func() *guard // evaluates the conditions; nil if the schema has none
}

// Fingerprint identifies the program by content: programs with the same fingerprint normalise and validate alike. It is
// stable across processes. Descriptions, titles and examples do not count.
func (p *Program) Fingerprint() uint64 { return p.fingerprint }

// Normalise does what becomes of every object that enters the server: Prune, Coerce and Default, in this order, in as few
// passes as the schema allows. The error is that of Coerce; obj is then half done and of no use.
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

// Prune removes what the schema does not specify, and nulls where the schema allows none and knows no default. If unknown is
// not nil it receives the paths of the removed fields in lexical order, spelt as in Kubernetes' strict field validation;
// removed nulls are not unknown.
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

// Coerce brings the metadata of embedded resources into the form of ObjectMeta. Fields that ObjectMeta does not know are
// removed and added to unknown, as in Prune. A value of the wrong type is an error, a *field.Error: the object must be
// refused as undecodable.
func (p *Program) Coerce(obj map[string]any, unknown *[]string) error {
	w := coercer{unknown: unknown}
	return w.run(obj, p.root)
}

// CoerceStored is Coerce for objects that are in the store already: what is malformed is dropped, not refused.
func (p *Program) CoerceStored(obj map[string]any) {
	w := coercer{drop: true}
	_ = w.run(obj, p.root) // dropping leaves nothing to refuse
}

// Default fills in defaults where a field is absent, or null although the schema allows no null.
func (p *Program) Default(obj map[string]any) { fill(obj, p.root) }

// Completes says whether Default would add a field at the root.
func (p *Program) Completes(obj map[string]any) bool {
	if !p.root.fills {
		return false
	}
	return slices.ContainsFunc(p.root.fields, func(f property) bool {
		_, found := obj[f.name]
		return !found && f.node.fallback != nil
	})
}

// Validate judges an object that is about to be created. The errors come in the order of Kubernetes: the schema's rules, more
// that the caller has found, embedded resources, keys of lists.
func (p *Program) Validate(obj map[string]any, more ...*field.Error) field.ErrorList {
	errs := append(p.root.explain(nil, obj, nil), more...)
	errs = append(errs, validateEmbedded(obj, p.root, nil)...)
	return append(errs, validateLists(obj, p.root, nil)...)
}

// ValidateUpdate judges an object that is about to replace old. Errors about values that old holds as well are dropped
// (KEP-4008), and those about keys of lists when old has any of them.
func (p *Program) ValidateUpdate(obj, old map[string]any, more ...*field.Error) field.ErrorList {
	errs := append(p.root.explain(nil, obj, &correlation{node: p.root, old: old, root: true}), more...)
	errs = append(errs, validateEmbedded(obj, p.root, nil)...)
	return append(errs, p.validateListsUpdate(obj, old)...)
}

// ValidateStatus judges an update of the status subresource: of the schema's rules, only those about status apply.
func (p *Program) ValidateStatus(obj, old map[string]any, more ...*field.Error) field.ErrorList {
	var errs field.ErrorList
	status := p.root.field("status")
	if v, ok := obj["status"]; ok && status != nil {
		errs = status.explain(field.NewPath("status"), v, &correlation{node: status, old: old["status"], root: true})
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
