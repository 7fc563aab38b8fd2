package schema

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// logic combines alternative schemas of one value.
type logic struct {
	allOf, anyOf, oneOf []*node
	not                 *node
}

func (c *compiler) logic(s *apiextensionsv1.JSONSchemaProps) (*logic, error) {
	if len(s.AllOf) == 0 && len(s.AnyOf) == 0 && len(s.OneOf) == 0 && s.Not == nil {
		return nil, nil
	}
	var l logic
	var err error
	if l.allOf, err = c.compileAll(s.AllOf); err != nil {
		return nil, err
	}
	if l.anyOf, err = c.compileAll(s.AnyOf); err != nil {
		return nil, err
	}
	if l.oneOf, err = c.compileAll(s.OneOf); err != nil {
		return nil, err
	}
	if s.Not != nil {
		if l.not, err = c.compile(s.Not); err != nil {
			return nil, err
		}
	}
	return &l, nil
}

func (c *compiler) compileAll(schemas []apiextensionsv1.JSONSchemaProps) ([]*node, error) {
	nodes := make([]*node, 0, len(schemas))
	for i := range schemas {
		n, err := c.compile(&schemas[i])
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// verdict reports whether v satisfies the combination.
func (l *logic) verdict(v any) bool {
	valid := func(n *node) bool { return n.validate(v, nil, nil, nil) }
	if len(l.anyOf) > 0 {
		found := false
		for _, n := range l.anyOf {
			if found = valid(n); found {
				break
			}
		}
		if !found {
			return false
		}
	}
	if len(l.oneOf) > 0 {
		found := 0
		for _, n := range l.oneOf {
			if valid(n) {
				found++
			}
		}
		if found != 1 {
			return false
		}
	}
	for _, n := range l.allOf {
		if !valid(n) {
			return false
		}
	}
	return l.not == nil || !valid(l.not)
}

// explain reports errors as Kubernetes does: of failed alternatives, only those of the one with the
// most matches. Unchanged values excuse nothing here.
func (l *logic) explain(v any, at *path, r *report) bool {
	ok := true
	if len(l.anyOf) > 0 {
		found, chosen := choose(l.anyOf, v, at, r.until, true)
		if found == 0 {
			ok = r.unplaced("%q must validate at least one schema (anyOf)", at.name())
		}
		r.merge(chosen)
	}
	if len(l.oneOf) > 0 {
		found, chosen := choose(l.oneOf, v, at, r.until, false)
		switch {
		case found == 0:
			ok = r.unplaced("%q must validate one and only one schema (oneOf). Found none valid", at.name())
			r.merge(chosen)
		case found > 1:
			ok = r.unplaced("%q must validate one and only one schema (oneOf). Found %d valid alternatives", at.name(), found)
		default:
			r.merge(chosen)
		}
	}
	if len(l.allOf) > 0 {
		valid := 0
		for _, n := range l.allOf {
			if n.validate(v, at, r, nil) {
				valid++
			}
		}
		if valid == 0 {
			ok = r.unplaced("%q must validate all the schemas (allOf). None validated", at.name())
		} else if valid < len(l.allOf) {
			ok = r.unplaced("%q must validate all the schemas (allOf)", at.name())
		}
	}
	if l.not != nil && l.not.validate(v, nil, nil, nil) {
		ok = r.unplaced("%q must not validate the schema (not)", at.name())
	}
	r.matches++
	return ok
}

// choose validates v against alternatives and counts those that accept it. It returns the report of
// the first accepting one or, if there is none, of the alternative with the most matches.
func choose(alternatives []*node, v any, at *path, until *deadline, stopAtFirst bool) (valid int, chosen *report) {
	for _, n := range alternatives {
		r := &report{until: until}
		if n.validate(v, at, r, nil) {
			valid++
			if valid == 1 {
				chosen = r
			}
			if stopAtFirst {
				return valid, chosen
			}
		} else if valid == 0 && (chosen == nil || r.matches > chosen.matches) {
			chosen = r
		}
	}
	return valid, chosen
}
