package openapi

import (
	"strings"
	"unicode"
)

// identifier removes all characters except letters, digits and underscores, and capitalizes the
// character after each gap.
func identifier(s string, capital bool) string {
	var out strings.Builder
	for i, r := range s {
		switch {
		case r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r):
			capital = i > 0 || capital
		case capital:
			out.WriteRune(unicode.ToUpper(r))
			capital = false
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// shortGroup is the group in identifiers and tags.
func shortGroup(group string) string {
	if group == "" {
		return "core"
	}
	return strings.TrimSuffix(group, ".k8s.io")
}

// operationID inserts group and version after the verb, which makes the identifier unique.
func operationID(verb, group, version, rest string) string {
	return verb + identifier(shortGroup(group), true) + identifier(version, true) + rest
}

func tag(group, version string) string {
	return identifier(shortGroup(group), false) + "_" + identifier(version, false)
}

// withArticle adds an indefinite article to a kind, unless it is a plural.
func withArticle(kind string) string {
	switch {
	case kind == "" || strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"):
		return kind
	case strings.ContainsRune("aeiouAEIOU", rune(kind[0])):
		return "an " + kind
	}
	return "a " + kind
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.ToLower(s[1:])
}
