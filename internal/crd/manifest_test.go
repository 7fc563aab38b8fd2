package crd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzWithoutSchemas decodes definitions with and without their schemas, and compares the
// manifests.
func FuzzWithoutSchemas(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"spec":{"group":"g","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}},"served":true},{"name":"v2","schema":{"openAPIV3Schema":{}}}]}}`,
		`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"description":"a } and \"openAPIV3Schema\":{ \\","properties":{"openAPIV3Schema":{"a":1}}}},"name":"v"}]}}`,
		`{"metadata":{"name":"n","annotations":{"a":"{\"openAPIV3Schema\":{\"x\":1}}"}},"spec":{"group":"g"}}`,
		`{"spec":{"versions":[{"schema":{"openAPIV3Schema":null},"name":"v"}]}}`,
		`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"a":`,
		`{"openAPIV3Schema":"}","spec":{"group":"g"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var compact json.RawMessage
		if json.Unmarshal([]byte(text), &compact) != nil {
			withoutSchemas([]byte(text)) // must not hang or panic on any input
			return
		}
		whole := &manifest{}
		if json.Unmarshal([]byte(text), whole) != nil || strings.ContainsAny(text, " \t\r\n") {
			return // stored JSON has no white space
		}
		cut, err := readManifest(&object.Object{Raw: []byte(text)})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(whole, cut, cmpopts.IgnoreUnexported(manifest{})); diff != "" {
			t.Errorf("%s (-whole +cut):\n%s", text, diff)
		}
	})
}
