package endpoint

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func TestWriteAndRead(t *testing.T) {
	s := newServer(t)
	made := decode[corev1.ConfigMap](t, s.must(201, "POST", configMapPath, configMap("a", `,"data":{"k":"v"}`)))
	if made.UID == "" || made.ResourceVersion == "" || made.Kind != "ConfigMap" || len(made.ManagedFields) != 1 || made.ManagedFields[0].Manager != "test" {
		t.Errorf("created: %+v", made)
	}
	got := decode[corev1.ConfigMap](t, s.must(200, "GET", configMapPath+"/a", ""))
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("get differs from what create answered:\n%s", diff)
	}
	got.Data["k"] = "w"
	body, _ := json.Marshal(got)
	updated := decode[corev1.ConfigMap](t, s.must(200, "PUT", configMapPath+"/a", string(body)))
	if updated.Data["k"] != "w" || updated.ResourceVersion == made.ResourceVersion {
		t.Errorf("updated: %+v", updated)
	}
	patched := decode[corev1.ConfigMap](t, s.must(200, "PATCH", configMapPath+"/a", `{"data":{"k":null,"l":"1"}}`, "Content-Type", "application/strategic-merge-patch+json"))
	if diff := cmp.Diff(map[string]string{"l": "1"}, patched.Data); diff != "" {
		t.Errorf("patched:\n%s", diff)
	}
	s.must(201, "PATCH", configMapPath+"/b?fieldManager=me", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n", "Content-Type", "application/apply-patch+yaml")
	status := decode[metav1.Status](t, s.must(200, "DELETE", configMapPath+"/a", ""))
	if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != "Success" || status.Details.UID != made.UID {
		t.Errorf("delete answered %+v", status)
	}
	list := decode[corev1.ConfigMapList](t, s.must(200, "DELETE", configMapPath, ""))
	if len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("deletecollection answered %+v", list)
	}
	if list := decode[corev1.ConfigMapList](t, s.must(200, "GET", configMapPath, "")); len(list.Items) != 0 || list.Items == nil {
		t.Errorf("list after deletecollection: %+v", list)
	}
}

func TestSubresources(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", widgetPath, widget("a", `,"spec":{"replicas":2},"status":{"replicas":1}`))
	scale := decode[autoscalingv1.Scale](t, s.must(200, "GET", widgetPath+"/a/scale", ""))
	if scale.APIVersion != "autoscaling/v1" || scale.Kind != "Scale" || scale.Spec.Replicas != 2 {
		t.Errorf("scale: %+v", scale)
	}
	s.must(200, "PATCH", widgetPath+"/a/scale", `{"spec":{"replicas":5}}`, "Content-Type", "application/merge-patch+json")
	table := decode[metav1.Table](t, s.must(200, "GET", widgetPath+"/a/scale", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"))
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "a" || table.Rows[0].Cells[1] != float64(5) && table.Rows[0].Cells[1] != int64(5) || table.ColumnDefinitions[1].Name != "Desired" {
		t.Errorf("scale as a table: %+v", table)
	}
	s.must(200, "GET", widgetPath+"/a/status", "")
	s.must(405, "POST", widgetPath+"/a/status", "{}")
	s.must(404, "GET", widgetPath+"/a/log", "")
}

func TestListBytes(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", configMapPath, configMap("a", `,"binaryData":{"kind":"eA=="},"data":{"x":"\"kind\":\"ConfigMap\",\\"}`))
	s.must(201, "POST", configMapPath, configMap("b", ""))
	text := s.must(200, "GET", configMapPath, "")
	if !strings.HasPrefix(text, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":[{"binaryData":{`) || !strings.HasSuffix(text, "]}\n") {
		t.Errorf("list: %s", text)
	}
	list := decode[corev1.ConfigMapList](t, text)
	for i, o := range list.Items {
		if o.Kind != "" || o.APIVersion != "" {
			t.Errorf("item %d of a list of a built-in kind has apiVersion %q, kind %q", i, o.APIVersion, o.Kind)
		}
		one := decode[corev1.ConfigMap](t, s.must(200, "GET", configMapPath+"/"+o.Name, ""))
		one.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(one, o); diff != "" {
			t.Errorf("item %d differs from the object:\n%s", i, diff)
		}
	}

	s.must(201, "POST", widgetPath, widget("a", ""))
	text = s.must(200, "GET", widgetPath, "")
	if !strings.HasPrefix(text, `{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget",`) ||
		!strings.HasSuffix(text, `],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"4"}}`+"\n") {
		t.Errorf("list of custom resources: %s", text)
	}
}

func TestPages(t *testing.T) {
	s := newServer(t)
	for i := range 5 {
		s.must(201, "POST", widgetPath, widget(fmt.Sprintf("w%d", i), ""))
	}
	var names []string
	next := ""
	for range 5 {
		page := decode[metav1.PartialObjectMetadataList](t, s.must(200, "GET", widgetPath+"?limit=2&continue="+next, ""))
		for _, o := range page.Items {
			names = append(names, o.Name)
		}
		if next = page.Continue; next == "" {
			break
		}
		if *page.RemainingItemCount != int64(5-len(names)) {
			t.Errorf("after %d objects, remainingItemCount is %d", len(names), *page.RemainingItemCount)
		}
	}
	if got := strings.Join(names, " "); got != "w0 w1 w2 w3 w4" {
		t.Errorf("pages show %s", got)
	}
}

func TestTables(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", widgetPath, widget("a", `,"spec":{"size":3}`))
	accept := "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

	table := decode[metav1.Table](t, s.must(200, "GET", widgetPath+"?limit=500", "", "Accept", accept))
	if table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || table.ResourceVersion != "2" || len(table.ColumnDefinitions) != 2 || table.ColumnDefinitions[1].Priority != 1 {
		t.Errorf("table: %+v", table)
	}
	if diff := cmp.Diff([]any{"a", float64(3)}, table.Rows[0].Cells); diff != "" {
		t.Errorf("cells:\n%s", diff)
	}
	row := decode[metav1.PartialObjectMetadata](t, string(table.Rows[0].Object.Raw))
	if row.Kind != "PartialObjectMetadata" || row.APIVersion != "meta.k8s.io/v1" || row.Name != "a" || row.ResourceVersion != "2" {
		t.Errorf("object of the row: %+v", row)
	}

	table = decode[metav1.Table](t, s.must(200, "GET", widgetPath+"/a?includeObject=Object", "", "Accept", "application/json;as=Table;v=v1beta1;g=meta.k8s.io"))
	whole := decode[unstructured.Unstructured](t, string(table.Rows[0].Object.Raw))
	if table.APIVersion != "meta.k8s.io/v1beta1" || table.ResourceVersion != "2" || whole.GetKind() != "Widget" {
		t.Errorf("table of one object: %+v", table)
	}
	table = decode[metav1.Table](t, s.must(200, "GET", widgetPath+"?includeObject=None", "", "Accept", accept))
	if string(table.Rows[0].Object.Raw) != "" && string(table.Rows[0].Object.Raw) != "null" {
		t.Errorf("includeObject=None: %s", table.Rows[0].Object.Raw)
	}

	s.must(201, "POST", configMapPath, configMap("a", ""))
	table = decode[metav1.Table](t, s.must(200, "GET", configMapPath, "", "Accept", accept))
	if table.ColumnDefinitions[1].Name != "Created At" || table.Rows[0].Cells[0] != "a" {
		t.Errorf("a kind without columns: %+v", table)
	}
	if text := s.must(400, "GET", widgetPath+"?includeObject=Some", "", "Accept", accept); !strings.Contains(text, `Unable to convert to Table as requested`) {
		t.Errorf("includeObject=Some: %s", text)
	}
}

func TestPartialObjects(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", widgetPath, widget("a", `,"spec":{"size":3}`))
	for _, version := range []string{"v1", "v1beta1"} {
		one := "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=" + version
		many := "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=" + version
		text := s.must(200, "GET", widgetPath+"/a", "", "Accept", one)
		partial := decode[metav1.PartialObjectMetadata](t, text)
		if partial.APIVersion != "meta.k8s.io/"+version || partial.ResourceVersion != "2" || strings.Contains(text, `"size":3`) {
			t.Errorf("partial: %s", text)
		}
		list := decode[metav1.PartialObjectMetadataList](t, s.must(200, "GET", widgetPath, "", "Accept", many))
		if list.Kind != "PartialObjectMetadataList" || list.APIVersion != "meta.k8s.io/"+version || list.Items[0].APIVersion != "meta.k8s.io/"+version {
			t.Errorf("partial list: %+v", list)
		}
		if text := s.must(406, "GET", widgetPath, "", "Accept", one); !strings.Contains(text, "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)") {
			t.Errorf("partial of a list: %s", text)
		}
		s.must(500, "GET", widgetPath+"/a", "", "Accept", many)
		s.do("POST", configMapPath, configMap("a", ""))
		if text := s.must(406, "GET", configMapPath+"/a", "", "Accept", many); !strings.Contains(text, "the requested object is not a list (*core.ConfigMap)") {
			t.Errorf("partial list of an object: %s", text)
		}
	}
}

func TestDryRun(t *testing.T) {
	s := newServer(t)
	made := decode[metav1.PartialObjectMetadata](t, s.must(201, "POST", widgetPath+"?dryRun=All", widget("a", "")))
	if made.UID == "" || made.ResourceVersion != "" {
		t.Errorf("dry run: %+v", made)
	}
	s.must(404, "GET", widgetPath+"/a", "")
}

func TestWarnings(t *testing.T) {
	s := newServer(t)
	w := s.do("POST", configMapPath, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"},"dada":{}}`)
	if got := w.Header().Values("Warning"); w.Code != 201 || len(got) != 1 || got[0] != `299 - "unknown field \"dada\""` {
		t.Errorf("%d, Warning %q", w.Code, got)
	}
	w = s.do("POST", configMapPath, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n  a: '1'\n  a: '2'\n", "Content-Type", "application/yaml")
	if got := w.Header().Values("Warning"); w.Code != 201 || len(got) != 1 || got[0] != `299 - "line 6: key \"a\" already set in map"` {
		t.Errorf("%d, Warning %q", w.Code, got)
	}
	w = s.do("GET", "/apis/example.com/v1beta1/namespaces/default/widgets", "")
	if got := w.Header().Values("Warning"); w.Code != 200 || len(got) != 1 || got[0] != `299 - "example.com/v1beta1 Widget is deprecated"` {
		t.Errorf("%d, Warning %q", w.Code, got)
	}

	c := &call{w: recorder{ResponseWriter: w}}
	w.Header().Del("Warning")
	for i := range 30 {
		c.warn(fmt.Sprintf("%03d", i) + strings.Repeat("x", 500))
	}
	total := 0
	for _, header := range w.Header().Values("Warning") {
		total += len(header)
		if len(header) > maxWarningWhenCut+20 {
			t.Errorf("warning of %d bytes is not cut", len(header))
		}
	}
	if total > maxWarnings+1024 {
		t.Errorf("warnings of %d bytes", total)
	}
}
