package serviceaccount

import "github.com/kapok-dev/kapok/internal/resource"

// within returns a map within a map, nil if there is none.
func within(obj resource.Tree, field string) resource.Tree {
	m, _ := obj[field].(map[string]any)
	return m
}

// text returns a string within a map, "" if there is none.
func text(obj resource.Tree, field string) string {
	s, _ := obj[field].(string)
	return s
}

// list returns a list within a map, nil if there is none.
func list(obj resource.Tree, field string) []any {
	l, _ := obj[field].([]any)
	return l
}

// maps returns the maps of a list within a map.
func maps(obj resource.Tree, field string) []resource.Tree {
	var all []resource.Tree
	for _, item := range list(obj, field) {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}
