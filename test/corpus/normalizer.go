package corpus

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// normalizer replaces what differs from run to run with placeholders. It lives for one case, in
// which equal values get equal placeholders, numbered in the order in which they are first printed.
//
//	<rvN>           a resourceVersion of an object          <list-rvN>   of a collection or bookmark
//	<uidN>          a UID                                   {ns}         the file's namespace
//	<time>          a time within a day of now              <microtime>  the same with microseconds
//	<age>           a cell of a table that shows an age     <continue>   a continue token
//	<suffixN>       what the server appended to a generateName
//	<object>        the object that a message quotes        <hash>, <port>  what their names say
//	<token>         a JSON Web Token in three parts
//	selfType<N>     how CEL calls the type of self
type normalizer struct {
	ns       string
	now      time.Time
	numbers  map[string]string // placeholders by family and value
	counts   map[string]int    // number of placeholders by family
	verbatim map[string]bool   // resourceVersions and UIDs in the script
	prefixes []string          // every generateName in the script
}

// newNormalizer returns a normalizer with the generateNames that earlier cases sent.
func newNormalizer(ns string, prefixes []string) *normalizer {
	return &normalizer{
		ns:       ns,
		prefixes: prefixes,
		now:      time.Now(),
		numbers:  map[string]string{},
		counts:   map[string]int{},
		verbatim: map[string]bool{"": true, "0": true},
	}
}

var writtenVersion = regexp.MustCompile(`(?i)resourceversion"?[=:]\s*"?(\d+)`)

// keepValuesOf records the resourceVersions and UIDs of an input, which are not replaced in the
// output.
func (n *normalizer) keepValuesOf(input string) {
	for _, m := range writtenVersion.FindAllStringSubmatch(input, -1) {
		n.verbatim[m[1]] = true
	}
	for _, u := range uid.FindAllString(input, -1) {
		n.verbatim[u] = true
	}
}

// keepPrefixesOf records the generateNames of a body. The server truncates a prefix to 58
// characters.
func (n *normalizer) keepPrefixesOf(body string) {
	for _, m := range generateName.FindAllStringSubmatch(body, -1) {
		n.prefixes = append(n.prefixes, m[1][:min(len(m[1]), 58)])
	}
}

// placeholder returns the placeholder of a value in its family.
func (n *normalizer) placeholder(family, value string) string {
	key := family + " " + value
	if n.numbers[key] == "" {
		n.counts[family]++
		n.numbers[key] = "<" + family + strconv.Itoa(n.counts[family]) + ">"
	}
	return n.numbers[key]
}

// value normalises a decoded response. It visits keys in sorted order, so that the numbering does
// not depend on the server's order.
func (n *normalizer) value(v any, managed bool) any { return n.walk(v, false, managed) }

// bookmark normalises the object of a bookmark, whose resourceVersion is that of a collection.
func (n *normalizer) bookmark(v any, managed bool) any {
	if object, is := v.(map[string]any); is {
		return n.object(object, true, managed)
	}
	return n.value(v, managed)
}

func (n *normalizer) walk(v any, cells, managed bool) any {
	switch v := v.(type) {
	case map[string]any:
		return n.object(v, isCollection(v), managed)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = n.walk(item, cells, managed)
		}
		return out
	case string:
		if cells && age.MatchString(v) {
			return "<age>"
		}
		return n.text(v)
	}
	return v
}

func (n *normalizer) object(v map[string]any, collection, managed bool) map[string]any {
	out := make(map[string]any, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if key == "metadata" {
			out[key] = n.metadata(v[key], collection, managed)
			continue
		}
		out[n.text(key)] = n.walk(v[key], key == "cells", managed)
	}
	return out
}

// isCollection tells lists and tables from objects: their resourceVersion is the server's, and
// moves with writes that the script has not made.
func isCollection(v map[string]any) bool {
	kind, _ := v["kind"].(string)
	return v["items"] != nil || kind == "Table" || strings.HasSuffix(kind, "List")
}

func (n *normalizer) metadata(v any, collection, managed bool) any {
	meta, is := v.(map[string]any)
	if !is {
		return n.walk(v, false, managed)
	}
	meta = maps.Clone(meta)
	if !managed {
		delete(meta, "managedFields")
	}
	rv, hasRV := meta["resourceVersion"].(string)
	if token, _ := meta["continue"].(string); token != "" {
		meta["continue"] = "<continue>"
	}
	out := n.walk(meta, false, managed).(map[string]any)
	if hasRV {
		family := "rv"
		if collection {
			family = "list-rv"
		}
		out["resourceVersion"] = n.given(family, rv)
	}
	return out
}

// given is the placeholder of value, unless the script wrote the value itself.
func (n *normalizer) given(family, value string) string {
	if n.verbatim[value] {
		return value
	}
	return n.placeholder(family, value)
}

var (
	generateName = regexp.MustCompile(`generateName"?: *"?([^",}\s]+)`)
	suffix       = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	age          = regexp.MustCompile(`^(\d+[smhdy])+$`)
	uid          = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	timestamp    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	hash         = regexp.MustCompile(`hash=[0-9A-F]{32,}`)
	parameter    = regexp.MustCompile(`^(#/parameters/[a-zA-Z]+)-[A-Za-z0-9_-]{8}$`) // shared by operations of OpenAPI v2
	port         = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	token        = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{60,}\.[A-Za-z0-9_-]{40,}`)
	selfType     = regexp.MustCompile(`\bselfType\d+`)
	// The error about an invalid patch contains the whole object, with fields in the order of the
	// Go types.
	quotedObject = regexp.MustCompile(`Invalid value: "\{(?:[^"\\]|\\.)*\}"`)
	revisions    = regexp.MustCompile(`(?i)(resource ?version:? |resource ?version in (?:precondition|object meta): |current: |in record \(|"resourceversion":")(\d+)(?:( \()(\d+))?`)
)

// text normalises values within a string.
func (n *normalizer) text(s string) string {
	s = quotedObject.ReplaceAllString(s, `Invalid value: "<object>"`)
	s = strings.ReplaceAll(s, n.ns, "{ns}")
	s = uid.ReplaceAllStringFunc(s, func(u string) string { return n.given("uid", u) })
	for _, prefix := range n.prefixes { // a prefix can occur in a UID
		s = n.suffix(s, prefix)
	}
	s = timestamp.ReplaceAllStringFunc(s, n.time)
	s = hash.ReplaceAllString(s, "hash=<hash>")
	s = parameter.ReplaceAllString(s, "$1-<hash>")
	s = port.ReplaceAllString(s, "127.0.0.1:<port>")
	s = token.ReplaceAllString(s, "<token>")
	s = selfType.ReplaceAllString(s, "selfType<N>")
	return revisions.ReplaceAllStringFunc(s, func(m string) string {
		parts := revisions.FindStringSubmatch(m)
		out := parts[1] + n.given("rv", parts[2])
		if parts[4] != "" {
			out += parts[3] + n.given("list-rv", parts[4])
		}
		return out
	})
}

// suffix replaces the five characters that the server appended to a prefix.
func (n *normalizer) suffix(s, prefix string) string {
	for from := 0; ; {
		i := strings.Index(s[from:], prefix)
		if i < 0 {
			return s
		}
		from += i + len(prefix)
		if letters := suffix.FindString(s[from:]); letters != "" {
			s = s[:from] + n.placeholder("suffix", prefix+letters) + s[from+len(letters):]
		}
	}
}

func (n *normalizer) time(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Sub(n.now).Abs() > 24*time.Hour {
		return s
	}
	if strings.Contains(s, ".") {
		return "<microtime>"
	}
	return "<time>"
}
