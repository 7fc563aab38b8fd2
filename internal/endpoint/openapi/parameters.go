package openapi

import (
	"cmp"
	"slices"
	"sync"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"
)

const metaV1 = "io.k8s.apimachinery.pkg.apis.meta.v1."

// parameter is a parameter of an operation, in the path or in the query.
type parameter struct {
	name, in, typ, description string
}

func (p parameter) required() bool { return p.in == "path" }

func compareParameters(a, b parameter) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.in, b.in))
}

var (
	namespaceParameter = parameter{"namespace", "path", "string", "object name and auth scope, such as for teams and projects"}
	pathParameter      = parameter{"path", "path", "string", "path to the resource"}
	prettyParameter    = parameter{"pretty", "query", "string", "If 'true', then the output is pretty printed. Defaults to 'false' " +
		"unless the user-agent indicates a browser or command-line HTTP tool (curl and wget)."}
)

func nameParameter(kind string) parameter {
	return parameter{"name", "path", "string", "name of the " + kind}
}

// options are the query parameters for the fields of GetOptions, ListOptions and so on.
type options struct {
	get, list, create, update, patch, delete []parameter
}

var commonOptions = sync.OnceValue(func() *options {
	return &options{
		get:    optionParameters(metaV1 + "GetOptions"),
		list:   optionParameters(metaV1 + "ListOptions"),
		create: optionParameters(metaV1 + "CreateOptions"),
		update: optionParameters(metaV1 + "UpdateOptions"),
		patch:  optionParameters(metaV1 + "PatchOptions"),
		delete: optionParameters(metaV1 + "DeleteOptions"),
	}
})

// optionParameters returns a query parameter for every field of a definition with a simple type. A
// parameter that is a list is repeated.
func optionParameters(definition string) []parameter {
	s, ok := kindsopenapi.Builtin().Get(definition)
	if !ok {
		return nil
	}
	var parameters []parameter
	for name, field := range s.Properties {
		if name == "apiVersion" || name == "kind" || len(field.Type) == 0 {
			continue
		}
		typ := field.Type[0]
		if typ == "array" && field.Items != nil && field.Items.Schema != nil && len(field.Items.Schema.Type) > 0 {
			typ = field.Items.Schema.Type[0]
		}
		parameters = append(parameters, parameter{name, "query", typ, field.Description})
	}
	slices.SortFunc(parameters, compareParameters)
	return parameters
}

func without(parameters []parameter, names ...string) []parameter {
	return slices.DeleteFunc(slices.Clone(parameters), func(p parameter) bool { return slices.Contains(names, p.name) })
}
