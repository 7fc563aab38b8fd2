package openapi

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// pathItem has all operations of a path. Attributes that all of them share belong to the path.
type pathItem struct {
	path       string
	parameters []parameter
	operations []operation
}

// pathItems groups operations by path.
func pathItems(operations []operation) []pathItem {
	byPath := map[string][]operation{}
	for _, o := range operations {
		byPath[o.path] = append(byPath[o.path], o)
	}
	items := make([]pathItem, 0, len(byPath))
	for path, operations := range byPath {
		items = append(items, pathItem{path, shareParameters(operations), operations})
	}
	slices.SortFunc(items, func(a, b pathItem) int { return cmp.Compare(a.path, b.path) })
	return items
}

// shareParameters moves the parameters that all operations share to the path.
func shareParameters(operations []operation) []parameter {
	type key struct{ name, in string }
	count := map[key]int{}
	last := map[key]parameter{}
	for _, o := range operations {
		for _, p := range o.parameters {
			count[key{p.name, p.in}]++
			last[key{p.name, p.in}] = p
		}
	}
	maps.DeleteFunc(last, func(k key, _ parameter) bool { return count[k] < len(operations) })
	for i := range operations {
		operations[i].parameters = slices.DeleteFunc(operations[i].parameters, func(p parameter) bool {
			_, shared := last[key{p.name, p.in}]
			return shared
		})
	}
	return slices.SortedFunc(maps.Values(last), compareParameters)
}

// definitions returns the names of the definitions that the operations refer to.
func definitions(operations []operation) []string {
	names := map[string]bool{}
	for _, o := range operations {
		if o.body != nil {
			names[o.body.definition] = true
		}
		names[o.answer] = true
	}
	delete(names, plainText)
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// common renders the attributes of an operation that all versions of OpenAPI have.
func (o *operation) common() object {
	rendered := object{"operationId": o.id, "tags": []string{o.tag}, "description": o.about}
	if o.action != "" {
		rendered["x-kubernetes-action"] = o.action
	}
	if o.kind != nil {
		rendered[keyKinds] = object{"group": o.kind.Group, "version": o.kind.Version, "kind": o.kind.Kind}
	}
	return rendered
}

// common renders the attributes of a parameter that all versions of OpenAPI have.
func (p parameter) common() object {
	rendered := object{"name": p.name, "in": p.in}
	if p.description != "" {
		rendered["description"] = p.description
	}
	if p.required() {
		rendered["required"] = true
	}
	return rendered
}

// statusText describes a response.
func statusText(code int) string {
	switch code {
	case 200:
		return "OK"
	case 201:
		return "Created"
	case 202:
		return "Accepted"
	}
	return "Unauthorized"
}

func (o *operation) key() string { return strings.ToLower(o.method) }
