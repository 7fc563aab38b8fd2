package endpoint

import (
	"encoding/json"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
)

// table renders objects of one kind as a Table.
type table struct {
	c       *call
	rows    *resource.Version // the columns and cells
	version string            // of meta.k8s.io
	include metav1.IncludeObjectPolicy
	headers bool // the next table has column definitions
	now     time.Time
}

func (c *call) table(m media, options *metav1.TableOptions) *table {
	return &table{
		c:       c,
		rows:    c.version,
		version: m.as.Version,
		include: options.IncludeObject,
		headers: !options.NoHeaders,
		now:     time.Now(),
	}
}

// renderTable renders a list as a Table.
func (c *call) renderTable(out *output, l resource.List) error {
	options, err := c.tableOptions()
	if err != nil {
		return err
	}
	t := c.table(out.m, options)
	if c.version.Default != nil {
		t.mark(c.version.Default(l.Objects))
	}
	if c.version.Order != nil {
		l.Objects = c.version.Order(l.Objects)
	}
	if out.buf, err = t.open(out.buf, appendListMetaJSON(nil, l, false)); err != nil {
		return err
	}
	for i, o := range l.Objects {
		c.yield(i)
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		if out.buf, err = t.row(out.buf, o, o.Revision); err != nil {
			return err
		}
		out.spill()
	}
	out.buf = append(out.buf, "]}"...)
	return nil
}

// appendOne appends a Table of one row.
func (t *table) appendOne(dst []byte, o *object.Object, revision object.Revision) ([]byte, error) {
	dst, err := t.open(dst, listMetaOf(revision))
	if err != nil {
		return dst, err
	}
	dst, err = t.row(dst, o, revision)
	return append(dst, "]}"...), err
}

func listMetaOf(revision object.Revision) []byte {
	if revision == 0 {
		return []byte("{}")
	}
	return []byte(`{"resourceVersion":"` + revision.String() + `"}`)
}

// open appends a Table up to its first row.
func (t *table) open(dst, metadata []byte) ([]byte, error) {
	var columns []byte
	if t.headers {
		var err error
		if columns, err = json.Marshal(columnsOf(t.c.version)); err != nil {
			return dst, err
		}
	}
	t.headers = false // only the first table of a stream has them
	return openTable(dst, t.version, metadata, columns), nil
}

func openTable(dst []byte, version string, metadata, columns []byte) []byte {
	dst = appendTypeMeta(dst, "Table", metav1.GroupName+"/"+version)
	dst = append(dst, `,"metadata":`...)
	dst = append(dst, metadata...)
	dst = append(dst, `,"columnDefinitions":`...)
	if columns == nil {
		columns = []byte("null")
	}
	dst = append(dst, columns...)
	return append(dst, `,"rows":[`...)
}

// columnsOf returns the columns of a version; by default those of all kinds.
func columnsOf(v *resource.Version) []metav1.TableColumnDefinition {
	if v != nil && v.Cells != nil && len(v.Columns) > 0 {
		return v.Columns
	}
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: docs["name"]},
		{Name: "Created At", Type: "date", Description: docs["creationTimestamp"]},
	}
}

// mark appends "(default)" to the name of an object in its row.
func (t *table) mark(name string) {
	marked := *t.rows
	marked.Cells = func(obj resource.Tree, now time.Time) []any {
		cells := t.c.version.Cells(obj, now)
		if cells[0] == name {
			cells[0] = name + " (default)"
		}
		return cells
	}
	t.rows = &marked
}

// row appends the row of an object.
func (t *table) row(dst []byte, o *object.Object, revision object.Revision) ([]byte, error) {
	v := t.rows
	if v.Cells == nil || len(v.Columns) == 0 {
		created := o.Meta.Created.UTC().Format(time.RFC3339)
		return t.finishRow(dst, []any{o.Key.Name, created}, nil, o, revision)
	}
	tree, err := resource.TreeOf(t.c.definition, t.c.version, o)
	if err != nil {
		return dst, err
	}
	var conditions []metav1.TableRowCondition
	if v.RowConditions != nil {
		conditions = v.RowConditions(tree)
	}
	return t.finishRow(dst, v.Cells(tree, t.now), conditions, o, revision)
}

func (t *table) finishRow(dst []byte, cells []any, conditions []metav1.TableRowCondition, o *object.Object, revision object.Revision) ([]byte, error) {
	dst, err := appendCells(dst, cells)
	if err != nil {
		return dst, err
	}
	if len(conditions) > 0 {
		encoded, err := json.Marshal(conditions)
		if err != nil {
			return dst, err
		}
		dst = append(append(dst, `,"conditions":`...), encoded...)
	}
	dst = append(dst, `,"object":`...)
	m := media{}
	switch t.include {
	case metav1.IncludeNone:
		return append(dst, "null}"...), nil
	case metav1.IncludeMetadata, "":
		m.as = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
		m.as.Version = t.version
	}
	dst, err = t.c.appendObject(dst, m, o, revision)
	return append(dst, '}'), err
}

// appendCells begins a row with its cells.
func appendCells(dst []byte, cells []any) ([]byte, error) {
	dst = append(dst, `{"cells":[`...)
	for i, cell := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		encoded, err := object.AppendJSON(dst, cell)
		if err != nil { // a Go type that does not occur in trees
			plain, err := json.Marshal(cell)
			if err != nil {
				return dst, err
			}
			encoded = append(dst, plain...)
		}
		dst = encoded
	}
	return append(dst, ']'), nil
}

// appendBookmark appends the Table of a bookmark. The object of its row is empty except for its
// metadata.
func (t *table) appendBookmark(dst []byte, revision object.Revision, metadata []byte) ([]byte, error) {
	dst, err := t.open(dst, listMetaOf(revision))
	if err != nil {
		return dst, err
	}
	v := t.c.version
	cells := []any{"", nil}
	if v.Cells != nil && len(v.Columns) > 0 {
		cells = v.Cells(resource.Tree{
			"apiVersion": t.c.definition.APIVersion(v),
			"kind":       t.c.definition.Kind,
			"metadata":   map[string]any{},
		}, t.now)
	}
	if dst, err = appendCells(dst, cells); err != nil {
		return dst, err
	}
	dst = append(dst, `,"object":`...)
	dst = appendTypeMeta(dst, "PartialObjectMetadata", metav1.GroupName+"/"+t.version)
	dst = append(dst, `,"metadata":`...)
	dst = append(dst, metadata...)
	return append(dst, "}}]}"...), nil
}

// scaleColumns returns the columns of a Scale, which are the same for all kinds.
func scaleColumns() []metav1.TableColumnDefinition {
	meta := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Description: meta["name"]},
		{Name: "Desired", Type: "integer", Description: autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]},
		{Name: "Available", Type: "integer", Description: autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]},
		{Name: "Age", Type: "string", Description: meta["creationTimestamp"]},
	}
}

func scaleCells(scale resource.Tree, now time.Time) []any {
	desired, _, _ := unstructured.NestedInt64(scale, "spec", "replicas")
	available, _, _ := unstructured.NestedInt64(scale, "status", "replicas")
	name, _, _ := unstructured.NestedString(scale, "metadata", "name")
	age := "<unknown>"
	created, _, _ := unstructured.NestedString(scale, "metadata", "creationTimestamp")
	if t, err := time.Parse(time.RFC3339, created); err == nil {
		age = duration.HumanDuration(now.Sub(t))
	}
	return []any{name, desired, available, age}
}

// appendTreeTable appends the Table of a Scale, which is not stored.
func appendTreeTable(dst []byte, version string, options *metav1.TableOptions, tree resource.Tree) ([]byte, error) {
	var columns []byte
	var err error
	if !options.NoHeaders {
		if columns, err = json.Marshal(scaleColumns()); err != nil {
			return dst, err
		}
	}
	metadata, _ := tree["metadata"].(map[string]any)
	listMeta, err := object.AppendJSON(nil, map[string]any{"resourceVersion": metadata["resourceVersion"]})
	if err != nil {
		return dst, err
	}
	dst = openTable(dst, version, listMeta, columns)
	if dst, err = appendCells(dst, scaleCells(tree, time.Now())); err != nil {
		return dst, err
	}
	dst = append(dst, `,"object":`...)
	switch options.IncludeObject {
	case metav1.IncludeNone:
		dst = append(dst, "null"...)
	case metav1.IncludeObject:
		dst, err = object.AppendJSON(dst, tree)
	default:
		dst, err = object.AppendJSON(dst, map[string]any{
			"apiVersion": metav1.GroupName + "/" + version,
			"kind":       "PartialObjectMetadata",
			"metadata":   metadata,
		})
	}
	return append(dst, "}]}"...), err
}
