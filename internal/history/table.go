package history

import (
	"fmt"
	"mime"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// accepts reports whether the header Accept permits JSON, and the version of the Table that it
// prefers, if any. The order is that of the header: no client of Kubernetes sends weights.
func accepts(header []string) (table string, ok bool) {
	all := strings.Join(header, ",")
	if strings.TrimSpace(all) == "" {
		return "", true
	}
	for _, clause := range strings.Split(all, ",") {
		name, parameters, err := mime.ParseMediaType(clause)
		if err != nil || name != "*/*" && name != "application/*" && name != "application/json" {
			continue
		}
		switch as := parameters["as"]; {
		case as == "":
			return "", true
		case as == "Table" && parameters["g"] == metav1.GroupName && (parameters["v"] == "v1" || parameters["v"] == "v1beta1"):
			return parameters["v"], true
		}
	}
	return "", false
}

// tableOf returns the Table of a *Revision or a *List.
func tableOf(answer any, version string, include metav1.IncludeObjectPolicy) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: metav1.GroupName + "/" + version, Kind: "Table"},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the revision"},
			{Name: "Age", Type: "string", Description: "Time since the write"},
			{Name: "Manager", Type: "string", Description: "Field managers of the write"},
			{Name: "Change", Type: "string", Description: "Fields that the write has changed"},
		},
		Rows: []metav1.TableRow{},
	}
	items := []Revision{}
	switch a := answer.(type) {
	case *Revision:
		items = append(items, *a)
	case *List:
		t.ListMeta, items = a.ListMeta, a.Items
	}
	for i := range items {
		r := &items[i]
		age := "<unknown>"
		if !r.CreationTimestamp.IsZero() {
			age = duration.HumanDuration(time.Since(r.CreationTimestamp.Time))
		}
		row := metav1.TableRow{Cells: []any{r.Name, age, strings.Join(r.Managers, ","), r.Summary()}}
		switch include {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			row.Object.Object = &whole{r}
		default:
			row.Object.Object = &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: metav1.GroupName + "/" + version, Kind: "PartialObjectMetadata"},
				ObjectMeta: r.ObjectMeta,
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// mostFields is the number of fields that a summary names.
const mostFields = 5

// Summary says in one line what the write has done.
func (r *Revision) Summary() string {
	switch {
	case r.Message != "":
		return "cannot be read: " + r.Message
	case r.Change == Earliest:
		return "oldest known state"
	case r.Change != Updated:
		return strings.ToLower(string(r.Change))
	case len(r.Fields) == 0:
		return "no field"
	case len(r.Fields) > mostFields:
		return fmt.Sprintf("%s, and %d more", strings.Join(r.Fields[:mostFields], ", "), len(r.Fields)-mostFields)
	}
	return strings.Join(r.Fields, ", ")
}

// whole is a revision as an object of a Table.
type whole struct{ *Revision }

// DeepCopyObject implements runtime.Object. A row is not changed.
func (w *whole) DeepCopyObject() runtime.Object { return w }
