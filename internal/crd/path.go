package crd

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/client-go/util/jsonpath"
)

// A path finds one value in an object. Plain chains of keys, which nearly all paths are, are
// followed directly; other paths use the JSONPath library. It is safe for concurrent use.
type path struct {
	keys []string // of a plain chain; nil otherwise

	mu      sync.Mutex // the library's paths are not safe for concurrent use
	complex *jsonpath.JSONPath
}

// parsePath parses a JSONPath without its braces. It accepts paths that validation rejects, as
// stored definitions can be older than the rules.
func parsePath(text string) (*path, error) {
	if keys, ok := plainKeys(text); ok {
		return &path{keys: keys}, nil
	}
	complex := jsonpath.New("path").AllowMissingKeys(true)
	if err := complex.Parse("{" + text + "}"); err != nil {
		return nil, fmt.Errorf("parse JSON path %q: %w", text, err)
	}
	return &path{complex: complex}, nil
}

// plainKeys splits a path like .spec.color; ok is false if it has anything but keys.
func plainKeys(text string) ([]string, bool) {
	rest, ok := strings.CutPrefix(text, ".")
	if !ok || rest == "" {
		return nil, false
	}
	keys := strings.Split(rest, ".")
	for _, key := range keys {
		if key == "" || strings.ContainsFunc(key, func(r rune) bool {
			return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return nil, false
		}
	}
	return keys, true
}

// find returns the value, which may be null. found is false if a key is missing or the path does
// not fit.
func (p *path) find(obj resource.Tree) (value any, found bool) {
	if p.complex == nil {
		return follow(obj, p.keys)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	results, err := p.complex.FindResults(obj)
	if err != nil || len(results) == 0 || len(results[0]) == 0 || !results[0][0].CanInterface() {
		return nil, false
	}
	return results[0][0].Interface(), true
}

// follow follows a chain of keys.
func follow(obj resource.Tree, keys []string) (any, bool) {
	var value any = obj
	for _, key := range keys {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = m[key]; !ok {
			return nil, false
		}
	}
	return value, true
}

// text formats a value as the JSONPath library prints it.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case int64, bool:
		return fmt.Sprint(v), true
	}
	var b strings.Builder
	if err := jsonpath.New("text").PrintResults(&b, []reflect.Value{reflect.ValueOf(value)}); err != nil {
		return "", false
	}
	return b.String(), true
}
