package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProtobuf generates the protobuf code of k8s.io/api and kube-aggregator again: their files,
// which go-to-protobuf, protoc and goimports have made, come back, and so does a tag of a field.
func TestProtobuf(t *testing.T) {
	for _, tc := range []struct{ module, packages, types, tag string }{
		{"k8s.io/api@v0.37.2", "apps/v1 core/v1", "apps/v1/types.go", `json:"message,omitempty" protobuf:"bytes,5,opt,name=message"`},
		{"k8s.io/kube-aggregator@v0.37.2", "pkg/apis/apiregistration/v1", "pkg/apis/apiregistration/v1/types.go", `protobuf:"bytes,5,opt,name=message"`},
	} {
		t.Run(strings.NewReplacer("/", " ", "@", " ").Replace(tc.module), func(t *testing.T) {
			p := newProject(t)
			p.download(tc.module)
			types := p.read(tc.types)
			generated := p.read(filepath.Join(filepath.Dir(tc.types), "generated.pb.go"))
			p.write("header.txt", generated[strings.Index(generated, "/*"):strings.Index(generated, "*/")+2]+"\n\n")
			line := "generate protobuf:headerFile=header.txt"
			for dir := range strings.FieldsSeq(tc.packages) {
				line += " ./" + dir
			}
			before := p.state()
			p.must(line)
			if changed := changes(before, p.state()); len(changed) > 0 {
				t.Errorf("%v have changed", changed)
			}
			untagged := strings.Replace(types, tc.tag, strings.TrimSpace(strings.Split(tc.tag, "protobuf:")[0]), 1)
			if untagged == types {
				t.Fatal("no tag is removed")
			}
			p.write(tc.types, strings.Replace(untagged, " `\n", "`\n", 1))
			for dir := range strings.FieldsSeq(tc.packages) {
				for _, name := range []string{"generated.proto", "generated.pb.go"} {
					if err := os.Remove(filepath.Join(p.dir, dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			out := p.must(line)
			if changed := changes(before, p.state()); len(changed) > 0 || !strings.Contains(out, tc.types+"\n") {
				t.Errorf("from nothing, %v differ:\n%s", changed, out)
			}
			if out := p.must(line); out != "" {
				t.Errorf("a second run says\n%s", out)
			}

			// After an error, nothing has changed.
			p.write(tc.types, types+"\n// Odd has a tag that is none.\ntype Odd struct {\n\tName string `json:\"name\" protobuf:\"bytes\"`\n}\n")
			broken := p.state()
			if code, out := p.run(line); code != 1 || !strings.HasPrefix(out, "kapok: go-to-protobuf: ") || !strings.Contains(out, "malformed 'protobuf' tag") {
				t.Errorf("a tag that is none: exit code %d\n%s", code, out)
			}
			if changed := changes(broken, p.state()); len(changed) > 0 {
				t.Errorf("after an error, %v have changed", changed)
			}
		})
	}
}
