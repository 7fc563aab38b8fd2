package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// sizedCRD returns a definition of foos whose schema has fields of the given shape, and about the
// given number of bytes.
func sizedCRD(shape string, size int) string {
	var fields strings.Builder
	for i := 0; fields.Len() < size; i++ {
		if i > 0 {
			fields.WriteByte(',')
		}
		switch shape {
		case "plain":
			fmt.Fprintf(&fields, `"field%d":{"type":"string","description":"field %d of the resource","maxLength":%d}`, i, i, 10+i)
		case "rules":
			fmt.Fprintf(&fields, `"field%d":{"type":"string","description":"%0300d","maxLength":%d,"x-kubernetes-validations":[{"rule":"self.size() < %d"}]}`, i, i, 10+i, i+20)
		case "defaults":
			fmt.Fprintf(&fields, `"field%d":{"type":"object","default":{},"properties":{"a":{"type":"integer","default":%d}}}`, i, i)
		}
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[
		{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}}}]}}`, fields.String())
}

// BenchmarkLargeSchema creates a definition of 841 KB, or updates an annotation of it.
func BenchmarkLargeSchema(b *testing.B) {
	for _, shape := range []string{"plain", "defaults", "rules"} {
		body := sizedCRD(shape, 841_000)
		b.Run("shape="+shape+"/verb=create", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				r := startRaw(b, kapok.Options{})
				b.StartTimer()
				r.must(201, "POST", crds, body)
				b.StopTimer()
				if err := r.server.Stop(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		b.Run("shape="+shape+"/verb=annotate", func(b *testing.B) {
			r := startRaw(b, kapok.Options{})
			r.must(201, "POST", crds, body)
			r.established()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.must(200, "PATCH", foosCRD, fmt.Sprintf(`{"metadata":{"annotations":{"a":"%d"}}}`, i), "Content-Type", mergePatch)
			}
		})
	}
}
