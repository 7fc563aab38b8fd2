package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestQuotaBooks checks that a user who may create CustomResourceDefinitions cannot access the
// ledgers of quotas, with any name.
func TestQuotaBooks(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.must(201, "POST", "/api/v1/namespaces/default/resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"count/secrets":"1"}}}`)
	r.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"a"}}`)
	for _, kind := range []string{"QuotaLedger", "QuotaEpoch"} {
		singular := strings.ToLower(kind)
		r.must(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"metadata":{"name":"%[1]ss.kapok.dev"},
			"spec":{"group":"kapok.dev","scope":"Cluster","names":{"plural":"%[1]ss","kind":%[2]q},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, singular, kind))
		path := "/apis/kapok.dev/v1/" + singular + "s"
		r.wait("the kind to be served", func() bool { code, _ := r.do("GET", path, ""); return code == 200 })
		if list := r.must(200, "GET", path, ""); !strings.Contains(list, `"items":[]`) {
			t.Errorf("%s: %s", path, list)
		}
	}
	r.must(403, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"b"}}`)
}
