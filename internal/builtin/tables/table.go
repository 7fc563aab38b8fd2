package tables

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// A Table is how the objects of the Go type T look as lines: its columns, and the cells of an object, one a column.
type Table[T any] struct {
	Columns []metav1.TableColumnDefinition
	Cells   func(obj *T, now time.Time) []any
	// Conditions say what is the matter with a line as a whole; nil if there is never anything to say.
	Conditions func(obj *T) []metav1.TableRowCondition
	// Default says whether an object wants to count where none is named; of several the newest does.
	Default func(obj *T) bool
	// Order compares the objects of a list as they are shown; those that are equal are in the order of their names. Nil: all are.
	Order func(a, b *T) int
}

// documented is a Go type that knows the descriptions of its fields.
type documented interface{ SwaggerDoc() map[string]string }

// column is a column of a table with a description of its own.
func column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// fieldColumn is a column that is described by the field that it shows.
func fieldColumn(name string, of documented, field string) metav1.TableColumnDefinition {
	return column(name, of.SwaggerDoc()[field])
}

// wide makes a column one that is shown on demand (kubectl get -o wide).
func wide(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Priority = 1
	return column
}

func nameColumn() metav1.TableColumnDefinition {
	column := fieldColumn("Name", metav1.ObjectMeta{}, "name")
	column.Format = "name"
	return column
}

func ageColumn() metav1.TableColumnDefinition {
	return fieldColumn("Age", metav1.ObjectMeta{}, "creationTimestamp")
}

// since is the cell of a time that has passed.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

func age(meta metav1.ObjectMeta, now time.Time) string {
	return since(meta.CreationTimestamp.Time, now)
}

// orNone is the cell of a text that may be missing.
func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// containerCells are the names and the images of containers.
func containerCells(containers []corev1.Container) (names, images string) {
	var n, i []string
	for _, c := range containers {
		n = append(n, c.Name)
		i = append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// selectorCell is a label selector as text.
func selectorCell(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}
