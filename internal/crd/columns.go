package crd

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// metaDoc returns the description of a field of ObjectMeta.
func metaDoc(field string) string { return metav1.ObjectMeta{}.SwaggerDoc()[field] }

func nameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metaDoc("name")}
}

// table returns the columns of a version, and a function that fills their cells. The first column
// is the name; the others are those of the definition, or the age if it has none. A column whose
// path cannot be parsed ends the table, as in Kubernetes.
func table(columns []apiextensionsv1.CustomResourceColumnDefinition) ([]metav1.TableColumnDefinition, func(resource.Tree, time.Time) []any) {
	if len(columns) == 0 {
		columns = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", Description: metaDoc("creationTimestamp"), JSONPath: ".metadata.creationTimestamp",
		}}
	}
	headers := []metav1.TableColumnDefinition{nameColumn()}
	var paths []*path
	for _, c := range columns {
		p, err := parsePath(c.JSONPath)
		if err != nil {
			break
		}
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		paths = append(paths, p)
		headers = append(headers, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	return headers, func(obj resource.Tree, now time.Time) []any {
		cells := make([]any, len(headers))
		cells[0], _ = metadataOf(obj)["name"].(string)
		for i, p := range paths {
			if value, found := p.find(obj); found {
				cells[i+1] = cell(headers[i+1].Type, value, now)
			}
		}
		return cells
	}
}

// cell returns a value as a column of the given type shows it, or nil if the value does not have
// that type.
func cell(columnType string, value any, now time.Time) any {
	switch columnType {
	case "string":
		if s, ok := text(value); ok {
			return s
		}
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if s, ok := value.(string); ok {
			return age(s, now)
		}
	}
	return nil
}

// age returns the cell of a date.
func age(s string, now time.Time) string {
	var t metav1.Time
	if err := t.UnmarshalQueryParameter(s); err != nil {
		return "<invalid>"
	}
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// selectable returns the fields that selectors may name, a function that reads them, and the paths
// that it reads, nil for all.
func selectable(fields []apiextensionsv1.SelectableField) (labels []string, read func(resource.Tree) map[string]string, of object.FieldPaths) {
	if len(fields) == 0 {
		return nil, nil, nil
	}
	labels = make([]string, len(fields))
	plain := true
	for i, f := range fields {
		labels[i] = strings.TrimPrefix(f.JSONPath, ".")
		_, ok := plainKeys(f.JSONPath)
		plain = plain && ok
	}
	if plain {
		of = object.FieldPathsOf(labels...)
	}
	paths := sync.OnceValue(func() []*path {
		paths := make([]*path, len(fields))
		for i, f := range fields {
			paths[i], _ = parsePath(f.JSONPath) // nil selects nothing
		}
		return paths
	})
	read = func(obj resource.Tree) map[string]string {
		values := make(map[string]string, len(labels))
		for i, p := range paths() {
			values[labels[i]] = ""
			if p == nil {
				continue
			}
			if value, found := p.find(obj); found && value != nil {
				values[labels[i]] = fmt.Sprint(value)
			}
		}
		return values
	}
	return labels, read, of
}
