package importcrd

import (
	"strings"
	"unicode"

	"github.com/gobuffalo/flect"
)

// initialisms are words that Go code writes in capitals. Those that are usual in Kubernetes are
// here.
var initialisms = map[string]bool{
	"acl": true, "acme": true, "api": true, "ca": true, "cidr": true, "cpu": true, "dns": true, "gpu": true,
	"grpc": true, "http": true, "https": true, "id": true, "io": true, "ip": true, "json": true, "jwt": true,
	"ldap": true, "oidc": true, "os": true, "pvc": true, "qps": true, "rbac": true, "sql": true, "ssh": true,
	"tcp": true, "tls": true, "ttl": true, "udp": true, "ui": true, "uid": true, "uri": true, "url": true,
	"uuid": true, "vm": true, "xml": true, "yaml": true,
}

// goName returns the exported Go name for a name in JSON, "" if it has no letter or digit. The case
// within words stays: clusterIPs is ClusterIPs, and only a first word as in apiGroup is written in
// capitals.
func goName(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		end := strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLower(r) })
		if end < 0 {
			end = len(word)
		}
		if first := word[:end]; initialisms[first] {
			b.WriteString(strings.ToUpper(first))
		} else if first != "" {
			r := []rune(first)
			b.WriteRune(unicode.ToUpper(r[0]))
			b.WriteString(string(r[1:]))
		}
		b.WriteString(word[end:])
	}
	switch goName := b.String(); {
	case goName == "":
		return ""
	case !unicode.IsUpper([]rune(goName)[0]): // a digit, or a letter without case
		return "X" + goName
	default:
		return goName
	}
}

// itemName returns the name for the items of a list.
func itemName(list string) string {
	if one := flect.Singularize(list); one != list && strings.HasSuffix(list, "s") && one != "" {
		return one
	}
	return list + "Item"
}

// packageName returns the Go package name for the version of an API.
func packageName(version string) string { return strings.ReplaceAll(version, "-", "") }

// A scope has the names that are taken.
type scope map[string]bool

// take returns a name that was free, and takes it: the given one, or else with a number.
func (s scope) take(name string) string {
	free := name
	for n := 2; s[free]; n++ {
		free = name + itoa(n)
	}
	s[free] = true
	return free
}
