package validation

import (
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// A ruleScope is what rules know of a schema: the types of its values, which are derived from those
// of the schema above it if that has rules, and how many values there may be. A nil scope stands
// for a schema in which rules are not compiled.
type ruleScope struct {
	above  *ruleScope
	schema *apiextensions.JSONSchemaProps // nil for none
	step   func(*typeInfo) *typeInfo      // from the types above to these; nil at the root
	typed  bool                           // this schema or one above it has rules

	bounded bool // there are at most count values
	count   uint64

	info *typeInfo // once it is known
	err  error
}

// typeInfo has both forms of the types of a schema.
type typeInfo struct {
	schema   *structuralschema.Structural
	declared *apiservercel.DeclType
}

// rootOf returns the scope of a whole schema.
func rootOf(s *apiextensions.JSONSchemaProps, structural *structuralschema.Structural) *ruleScope {
	r := &ruleScope{schema: s, typed: len(s.XValidations) > 0, bounded: true, count: 1}
	if r.typed {
		r.info, r.err = declare(structural, true)
	}
	return r
}

func declare(s *structuralschema.Structural, root bool) (*typeInfo, error) {
	declared := model.SchemaDeclType(s, root)
	if declared == nil {
		return nil, errors.New("unable to convert structural schema to CEL declarations")
	}
	return &typeInfo{s, declared}, nil
}

func (r *ruleScope) below(s *apiextensions.JSONSchemaProps, step func(*typeInfo) *typeInfo) *ruleScope {
	if r == nil {
		return nil
	}
	b := &ruleScope{above: r, schema: s, step: step, typed: r.typed || s != nil && len(s.XValidations) > 0}
	if r.schema == nil || !r.bounded {
		return b
	}
	if n, ok := mostValues(r.schema); ok {
		b.bounded, b.count = true, product(r.count, n)
	}
	return b
}

// mostValues returns how many values a value of a schema has directly below it for each of its
// schemas; ok is false if their number is not bounded.
func mostValues(s *apiextensions.JSONSchemaProps) (n uint64, ok bool) {
	var most *int64
	switch {
	case s.Type == "object" && s.AdditionalProperties != nil:
		most = s.MaxProperties
	case s.Type == "array":
		most = s.MaxItems
	default:
		return 1, true
	}
	if most == nil {
		return 0, false
	}
	return uint64(max(0, *most)), true
}

// property returns the scope of a property.
func (r *ruleScope) property(s *apiextensions.JSONSchemaProps, name string) *ruleScope {
	return r.below(s, func(above *typeInfo) *typeInfo {
		escaped, ok := apiservercel.Escape(name)
		if above.schema.Properties == nil || !ok {
			return nil
		}
		f, ok := above.declared.Fields[escaped]
		if !ok { // expressions do not see fields of unknown types
			return nil
		}
		property := above.schema.Properties[name]
		return &typeInfo{&property, f.Type}
	})
}

// items returns the scope of the items of a list.
func (r *ruleScope) items(s *apiextensions.JSONSchemaProps) *ruleScope {
	return r.below(s, func(above *typeInfo) *typeInfo {
		if above.schema.Items == nil {
			return nil
		}
		return &typeInfo{above.schema.Items, above.declared.ElemType}
	})
}

// values returns the scope of the values of a map.
func (r *ruleScope) values(s *apiextensions.JSONSchemaProps) *ruleScope {
	return r.below(s, func(above *typeInfo) *typeInfo {
		if above.schema.AdditionalProperties == nil {
			return nil
		}
		return &typeInfo{above.schema.AdditionalProperties.Structural, above.declared.ElemType}
	})
}

// types returns the types of a schema; nil if neither it nor one above it has rules.
func (r *ruleScope) types() (*typeInfo, error) {
	if r == nil || !r.typed {
		return nil, nil
	}
	if r.info != nil || r.err != nil {
		return r.info, r.err
	}
	if r.above != nil {
		above, err := r.above.types()
		if err != nil {
			r.err = err
			return nil, err
		}
		if above != nil && above.declared == nil { // Kubernetes panics
			r.err = errors.New("the values above have no type")
			return nil, r.err
		}
		if above != nil {
			r.info = r.step(above)
		}
	}
	if r.info == nil {
		structural, err := structuralschema.NewStructural(r.schema)
		if err != nil {
			r.err = err
			return nil, err
		}
		r.info, r.err = declare(structural, r.above == nil || r.schema.XEmbeddedResource)
	}
	return r.info, r.err
}

// cost returns the estimated cost of a rule for all values.
func (r *ruleScope) cost(c *cel.CompilationResult) uint64 {
	if r.bounded {
		return product(c.MaxCost, r.count)
	}
	return product(c.MaxCost, c.MaxCardinality)
}
