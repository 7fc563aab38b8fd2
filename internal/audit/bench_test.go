package audit

import (
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
)

// BenchmarkRecord measures the cost of recording a request at the level Metadata, without the line
// that another goroutine writes.
func BenchmarkRecord(b *testing.B) {
	for _, level := range []string{"None", "Metadata"} {
		b.Run(level, func(b *testing.B) {
			dir := b.TempDir()
			policy := filepath.Join(dir, "policy.yaml")
			writeFile(b, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: "+level+"}]\n")
			a, err := New(Options{PolicyFile: policy}, quiet())
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			r := httptest.NewRequest("GET", "/api/v1/namespaces/default/configmaps/a", nil)
			by := &authz.Attributes{User: authn.Admin(), Verb: "get", ResourceRequest: true, Resource: "configmaps", Namespace: "default", Name: "a"}
			b.ReportAllocs()
			for b.Loop() {
				rec := a.Begin(r, by, "id", time.Now())
				rec.Received()
				rec.Annotate("authorization.k8s.io/decision", "allow")
				rec.Complete(200)
			}
		})
	}
}
