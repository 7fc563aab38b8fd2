package kind

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// OfBool returns the column with the type boolean.
func OfBool(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Type = "boolean"
	return column
}

// OfInt returns the column with the type integer.
func OfInt(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Type = "integer"
	return column
}

// A Table declares how objects are printed: its columns, and the cells of an object, one for each
// column.
type Table[P runtime.Object] struct {
	Columns []metav1.TableColumnDefinition
	Cells   func(obj P, now time.Time) []any
	// Conditions returns the conditions of a row. Nil if rows never have conditions.
	Conditions func(obj P) []metav1.TableRowCondition
	// Default reports whether an object is marked as the default of its kind. Of several, the
	// newest counts.
	Default func(obj P) bool
	// Order sorts the objects of a list for display. Equal objects stay in the order of their
	// names. Nil keeps that order.
	Order func(a, b P) int
}

// Documented is a Go type with descriptions of its fields.
type Documented interface{ SwaggerDoc() map[string]string }

// Column returns a column of type string with the given description.
func Column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// FieldColumn returns a column with the description of the field that it shows.
func FieldColumn(name string, of Documented, field string) metav1.TableColumnDefinition {
	return Column(name, of.SwaggerDoc()[field])
}

// Wide returns the column with priority 1: it is shown only with kubectl get -o wide.
func Wide(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Priority = 1
	return column
}

// NameColumn is the column of the object's name, the first of every table.
func NameColumn() metav1.TableColumnDefinition {
	column := FieldColumn("Name", metav1.ObjectMeta{}, "name")
	column.Format = "name"
	return column
}

// AgeColumn is the column of the time since the object's creation.
func AgeColumn() metav1.TableColumnDefinition {
	return FieldColumn("Age", metav1.ObjectMeta{}, "creationTimestamp")
}

// Since returns the cell of a time in the past, as a duration.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// Age is the cell of the time since the object's creation.
func Age(meta metav1.ObjectMeta, now time.Time) string {
	return Since(meta.CreationTimestamp.Time, now)
}

// OrNone returns s, "<none>" if it is empty.
func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// ContainerCells returns the names and the images of containers, separated by commas.
func ContainerCells(containers []corev1.Container) (names, images string) {
	var n, i []string
	for _, c := range containers {
		n = append(n, c.Name)
		i = append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// SelectorCell returns a label selector as text.
func SelectorCell(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}
