package metrics

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

const (
	mediaJSON     = "application/json"
	mediaYAML     = "application/yaml"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
)

// A metricsAnswer is an object of the metrics API, with its rows in a Table.
type metricsAnswer struct {
	object runtime.Object
	rows   []row
}

// A row is one object in a Table.
type row struct {
	name   string
	usage  corev1.ResourceList
	object metav1.Object
}

// write writes the answer in the first form of the header Accept that is known.
func (a *metricsAnswer) write(w http.ResponseWriter, r *http.Request) {
	media, table := accepted(r.Header.Values("Accept"))
	if media == "" {
		writeError(w, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "", Version.WithResource("").GroupResource(), "",
			"only the following media types are accepted: "+strings.Join([]string{mediaJSON, mediaYAML, mediaProtobuf}, ", "), 0, true))
		return
	}
	o := a.object
	if table != "" {
		o = a.table(table, r.URL.Query().Get("includeObject"))
	}
	switch media {
	case mediaProtobuf:
		w.Header().Set("Content-Type", media)
		scheme := runtime.NewScheme() // the kind is in the object
		_ = protobuf.NewSerializer(scheme, scheme).Encode(o, w)
	case mediaYAML:
		text, err := yaml.Marshal(o)
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(text) // fails if the client has gone
	default:
		writeJSON(w, http.StatusOK, o)
	}
}

// accepted returns the first media type of the header Accept that is known, and with a Table its
// version; "" if there is none. The order is that of the header: no client of Kubernetes sends
// weights.
func accepted(header []string) (media, table string) {
	clauses := strings.Split(strings.Join(header, ","), ",")
	if strings.TrimSpace(strings.Join(clauses, "")) == "" {
		return mediaJSON, ""
	}
	for _, clause := range clauses {
		name, parameters, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		switch name {
		case "*/*", "application/*":
			name = mediaJSON
		case mediaJSON, mediaYAML, mediaProtobuf:
		default:
			continue
		}
		switch {
		case parameters["as"] == "":
			return name, ""
		case parameters["as"] == "Table" && parameters["g"] == metav1.GroupName && (parameters["v"] == "v1" || parameters["v"] == "v1beta1") && name != mediaProtobuf:
			return name, parameters["v"]
		}
	}
	return "", ""
}

// table returns the Table of the answer: a column for each resource, as metrics-server has it.
func (a *metricsAnswer) table(version, include string) *metav1.Table {
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: metav1.GroupName + "/" + version, Kind: "Table"}, Rows: []metav1.TableRow{}}
	t.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"}}
	var names []corev1.ResourceName
	if len(a.rows) > 0 {
		for name := range a.rows[0].usage {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	for _, name := range names {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: string(name), Type: "string", Format: "quantity"})
	}
	t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Window", Type: "string", Format: "duration"})
	for _, r := range a.rows {
		cells := []any{r.name}
		for _, name := range names {
			q := r.usage[name]
			cells = append(cells, q.String())
		}
		line := metav1.TableRow{Cells: append(cells, Window.String())}
		switch metav1.IncludeObjectPolicy(include) {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			line.Object.Object = r.object.(runtime.Object)
		default:
			line.Object.Object = &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: metav1.GroupName + "/" + version, Kind: "PartialObjectMetadata"},
				ObjectMeta: metav1.ObjectMeta{
					Name: r.object.GetName(), Namespace: r.object.GetNamespace(), Labels: r.object.GetLabels(), CreationTimestamp: r.object.GetCreationTimestamp(),
				},
			}
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

func writeJSON(w http.ResponseWriter, code int, o any) {
	data, err := json.Marshal(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(code)
	_, _ = w.Write(append(data, '\n')) // fails if the client has gone
}

// writeError writes an error as a Status.
func writeError(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	writeJSON(w, int(s.Code), &s)
}
