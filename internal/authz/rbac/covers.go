package rbac

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/authz"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Covers reports whether the rules in have allow everything that those in want allow. Each
// combination of verb, group, resource and name is checked separately, so that several rules can
// cover one together.
func Covers(have, want []rbacv1.PolicyRule) bool {
	for _, w := range want {
		for part := range parts(w) {
			if !coversPart(have, &part) {
				return false
			}
		}
	}
	return true
}

// Uncovered returns the parts of want that have does not cover, in their order. A part has one
// verb, and either one group, resource and name, or one URL.
func Uncovered(have, want []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, w := range want {
		for part := range parts(w) {
			if !coversPart(have, &part) {
				all = append(all, part.rule())
			}
		}
	}
	return all
}

// Missing describes the parts of want that have does not cover, in Kubernetes' form, one on a line;
// "" if there are none. Parts that differ only in their verbs are one line.
func Missing(have, want []rbacv1.PolicyRule) string {
	var lines []string
	verbs := map[part][]string{} // verbs of resources, by the other fields of the part
	for _, w := range want {
		for p := range parts(w) {
			switch {
			case coversPart(have, &p):
			case p.isURL:
				lines = append(lines, describe(p.rule()))
			default:
				verb := p.verb
				p.verb = ""
				verbs[p] = append(verbs[p], verb)
			}
		}
	}
	for p, all := range verbs {
		rule := p.rule()
		rule.Verbs = all
		lines = append(lines, describe(rule))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// A part is one combination of the fields of a rule.
type part struct {
	verb, group, resource, name string
	named                       bool // the rule has names
	url                         string
	isURL                       bool
}

func (p *part) rule() rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: []string{p.verb}}
	if p.isURL {
		r.NonResourceURLs = []string{p.url}
		return r
	}
	r.APIGroups, r.Resources = []string{p.group}, []string{p.resource}
	if p.named {
		r.ResourceNames = []string{p.name}
	}
	return r
}

// parts yields the combinations of the fields of a rule.
func parts(r rbacv1.PolicyRule) func(yield func(part) bool) {
	names := r.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	return func(yield func(part) bool) {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						if !yield(part{verb: verb, group: group, resource: resource, name: name, named: len(r.ResourceNames) > 0}) {
							return
						}
					}
				}
			}
		}
		for _, url := range r.NonResourceURLs {
			for _, verb := range r.Verbs {
				if !yield(part{verb: verb, url: url, isURL: true}) {
					return
				}
			}
		}
	}
}

func coversPart(have []rbacv1.PolicyRule, p *part) bool {
	return slices.ContainsFunc(have, func(r rbacv1.PolicyRule) bool { return p.coveredBy(&r) })
}

func (p *part) coveredBy(r *rbacv1.PolicyRule) bool {
	if p.isURL && authz.OwnPath(p.url) {
		return len(r.ResourceNames) == 0 && slices.Contains(r.Verbs, p.verb) && slices.Contains(r.NonResourceURLs, p.url)
	}
	if !slices.Contains(r.Verbs, p.verb) && !slices.Contains(r.Verbs, rbacv1.VerbAll) {
		return false
	}
	if p.isURL {
		// A rule with resource names covers no URLs.
		return len(r.ResourceNames) == 0 && slices.ContainsFunc(r.NonResourceURLs, func(url string) bool {
			return url == p.url || strings.HasSuffix(url, "*") && strings.HasPrefix(p.url, strings.TrimRight(url, "*"))
		})
	}
	if !slices.Contains(r.APIGroups, p.group) && !slices.Contains(r.APIGroups, rbacv1.APIGroupAll) {
		return false
	}
	if len(r.ResourceNames) > 0 && !(p.named && slices.Contains(r.ResourceNames, p.name)) {
		return false
	}
	_, sub, ok := strings.Cut(p.resource, "/")
	return slices.Contains(r.Resources, p.resource) || slices.Contains(r.Resources, rbacv1.ResourceAll) ||
		ok && slices.Contains(r.Resources, "*/"+sub)
}

// describe returns Kubernetes' short form of a rule.
func describe(r rbacv1.PolicyRule) string {
	var fields []string
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(f.values) > 0 {
			fields = append(fields, fmt.Sprintf("%s:%q", f.name, f.values))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
