package schema

import (
	"regexp"
	"sync"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// textRules restrict strings. Lengths count characters.
type textRules struct {
	minLength, maxLength int64
	pattern              *pattern
}

func textRulesFor(s *apiextensionsv1.JSONSchemaProps) *textRules {
	if s.MinLength == nil && s.MaxLength == nil && s.Pattern == "" {
		return nil
	}
	t := &textRules{minLength: lower(s.MinLength), maxLength: upper(s.MaxLength)}
	if s.Pattern != "" {
		t.pattern = &pattern{source: s.Pattern}
	}
	return t
}

// validate reports the first rule that s violates, as Kubernetes does.
func (t *textRules) validate(s string, at *path, r *report) bool {
	if int64(len(s)) > t.maxLength && int64(utf8.RuneCountInString(s)) > t.maxLength {
		return r != nil && r.add(at.name(), "should be at most %d chars long", []any{t.maxLength},
			field.TooLong(nil, "", int(t.maxLength)))
	}
	if t.minLength > 0 && int64(utf8.RuneCountInString(s)) < t.minLength {
		return r != nil && r.invalid(at, s, "should be at least %d chars long", t.minLength)
	}
	if t.pattern != nil {
		re, err := t.pattern.compile()
		if err != nil {
			return r != nil && r.invalid(at, s, "should match '%s, but pattern is invalid: %s'", t.pattern.source, err)
		}
		if !re.MatchString(s) {
			return r != nil && r.invalid(at, s, "should match '%s'", t.pattern.source)
		}
	}
	return true
}

// pattern is a regular expression that is compiled on first use.
type pattern struct {
	source string
	once   sync.Once
	re     *regexp.Regexp
	err    error
}

func (p *pattern) compile() (*regexp.Regexp, error) {
	p.once.Do(func() { p.re, p.err = regexp.Compile(p.source) })
	return p.re, p.err
}
