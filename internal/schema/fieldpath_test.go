package schema

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
)

// TestFieldAt compares parsed paths with those of Kubernetes.
func TestFieldAt(t *testing.T) {
	s := parseSchema(t, `{type: object, properties: {a: {type: object, properties: {b: {type: string}, x-y: {type: string}, "a.b": {type: string}, "it's": {type: string}, "\t": {type: string}}},
		m: {type: object, additionalProperties: {type: object, properties: {b: {type: string}}}}, l: {type: array, items: {type: string}}}}`)
	p := mustCompile(t, s)
	j, err := newJudge(t, s, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		".a", ".a.b", ".a.x-y", ".a['b']", ".a['x-y']", ".a['a.b']", `.a['it\'s']`, `.a['\t']`, ".m.k", ".m['k']", ".m['k'].b", ".m.k.b", ".m['k']['b']", "['a']", "['a'].b", ".l",
		"", ".", "..", "a", "a.b", ".b", ".a.c", ".a.", ".a..b", ".a[b]", ".a['b", ".a['b'", ".a['b']c", ".a['b']]", ".a[", ".a[]", ".a['']", `.a['\z']`, ".m['k'].c", ".l[0]", ".l.x", ".a]", ".a[.b", ".m..b", ".a'b",
		".m.k['b']", ".m.'k'", ".['a']", ".m.", ".m..", ".m.[", ".m['", ".m[", ".m[']", ".m['k'].",
	} {
		want, _, wantErr := cel.ValidFieldPath(path, j.structural)
		got, err := fieldAt(path, p.root)
		if (err == nil) != (wantErr == nil) || err == nil && got.String() != want.String() {
			t.Errorf("%q:\n got %v, %v\nwant %v, %v", path, got, err, want, wantErr)
		}
	}
}
