package judge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kapok-dev/kapok/internal/endpoint/openapi"
)

// wide is a schema of 150 fields.
func wide() []byte {
	schema := `{"type":"object","properties":{"spec":{"type":"object","properties":{`
	for i := range 150 {
		if i > 0 {
			schema += ","
		}
		schema += fmt.Sprintf(`"field%d":{"type":"string","description":"Field %d says something about the thing.","maxLength":%d}`, i, i, i+1)
	}
	return []byte(schema + `}}}}`)
}

// BenchmarkChange measures the first request after one of 200 custom kinds has changed.
func BenchmarkChange(b *testing.B) {
	t := new(testing.T)
	resources := finishedSnapshot(t).Resources
	schema := wide()
	for i := range 200 {
		resources = append(resources, openapi.Resource{
			Group: fmt.Sprintf("g%d.example.com", i), Version: "v1", Plural: "things", Kind: "Thing", ListKind: "ThingList", Namespaced: true,
			Verbs:  []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			Custom: &openapi.Custom{Fingerprint: "0", Schema: func() ([]byte, error) { return schema, nil }},
		})
	}
	for _, c := range []struct{ name, path, accept string }{
		{"v3root", "/openapi/v3", "application/json"},
		{"v3core", "/openapi/v3/api/v1", "application/json"},
		{"v3corePB", "/openapi/v3/api/v1", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"},
		{"v3custom", "/openapi/v3/apis/g199.example.com/v1", "application/json"},
		{"v2", "/openapi/v2", "application/json"},
		{"v2PB", "/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var snapshot *openapi.Snapshot
			handler := openapi.New(func() *openapi.Snapshot { return snapshot })
			b.ReportAllocs()
			n, size := 0, 0
			for b.Loop() {
				n++
				last := resources[len(resources)-1]
				last.Custom = &openapi.Custom{Fingerprint: fmt.Sprint(n), Schema: last.Custom.Schema}
				version := "v1"
				if c.path == "/openapi/v3/api/v1" {
					version = fmt.Sprint(n)
				}
				snapshot = &openapi.Snapshot{Version: version, Resources: append(resources[:len(resources)-1:len(resources)-1], last)}
				r := httptest.NewRequest(http.MethodGet, c.path, nil)
				r.Header.Set("Accept", c.accept)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "size")
		})
	}
}
