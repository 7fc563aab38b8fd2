package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConvertStrict checks that fields that would be lost are errors, and nothing is printed; with
// warn they are reported, with ignore they are lost as in kubectl.
func TestConvertStrict(t *testing.T) {
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(crd, []byte(atDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	preserving := filepath.Join("..", "..", "internal", "crd", "testdata", "at-crd-versions.yaml")
	misspeltDefinition := filepath.Join(t.TempDir(), "misspelt.yaml")
	if err := os.WriteFile(misspeltDefinition, []byte(strings.Replace(atDefinition, "default: 3", "defualt: 3", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		where      = "FILE: document 1"
		deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"
	)
	for _, test := range []struct {
		name, in string
		args     []string
		want     []string // what is found
	}{
		{"nothing", deployment + "spec: {replicas: 3}", nil, nil},
		{"a misspelt field", deployment + "spec: {replcas: 3}", nil, []string{where + ` (Deployment x): unknown field "spec.replcas"`}},
		{"another case", deployment + "Spec: {}", nil, []string{where + ` (Deployment x): unknown field "Spec"`}},
		{"a field twice in JSON", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"b"},"data":{"a":"c"}}`, nil,
			[]string{where + ` (ConfigMap x): duplicate field "data"`}},
		{"a field twice in the second document of JSON", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}\n---\n{\"apiVersion\":\"v1\",\n\t\"kind\":\"ConfigMap\",\"data\":{},\"data\":{}}", nil,
			[]string{`FILE: document 2: duplicate field "data"`}},
		{"a key twice in YAML", deployment + "spec:\n  replicas: 1\n  paused: true\n  replicas: 2\n", nil,
			[]string{where + ` (Deployment x): line 7: key "replicas" already set in map (line numbers are relative to the document)`}},
		{"in a list", "apiVersion: apps/v1\nkind: DeploymentList\nitms: []\nitems: [{metadata: {name: z}, spec: {replcas: 3}}, {metadata: {nam: z}}]", nil,
			[]string{`FILE: document 1: unknown field "itms"`, `FILE: document 1, item 1 (Deployment z): unknown field "spec.replcas"`, `FILE: document 1, item 2: unknown field "metadata.nam"`}},
		{"a field twice in a list of JSON", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","b":"2"},"kind":"ConfigMap"}]}`, nil,
			[]string{`FILE: document 1, item 1: duplicate field "kind"`}},
		{"of a custom resource", at + "sepc: {}\n", []string{"--crd", crd}, []string{where + ` (At a): unknown field "sepc"`}},
		{"below of a custom resource", strings.Replace(at, "command", "comand", 1), []string{"--crd", crd}, []string{where + ` (At a): unknown field "spec.comand"`}},
		{"metadata of a custom resource", strings.Replace(at, "name: a", "name: a, lables: {}", 1), []string{"--crd", crd}, []string{where + ` (At a): unknown field "metadata.lables"`}},
		{"twice in a custom resource", `{"apiVersion":"cnat.example.com/v1alpha1","kind":"At","spec":{},"spec":{}}`, []string{"--crd", crd}, []string{where + `: duplicate field "spec"`}},
		{"what another version does not know", at, []string{"--crd", crd}, nil},
		{"preserved", strings.ReplaceAll(at, "example.com", "programming-kubernetes.info") + "sepc: {}", []string{"--crd", preserving}, nil},
		{"of a definition", at, []string{"--crd", misspeltDefinition},
			[]string{misspeltDefinition + `: document 1 (CustomResourceDefinition ats.cnat.example.com): unknown field "spec.versions[1].schema.openAPIV3Schema.properties.spec.properties.retries.defualt"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, stderr, code := convertText(t, test.in, test.args...)
			if found := len(test.want) > 0; found != (code == exitFailure) || found != (out == "") {
				t.Errorf("exit code %d: %s", code, out)
			}
			want := ""
			if len(test.want) > 0 {
				want = "kapok: " + strings.Join(test.want, "\n") + "\n"
			}
			if stderr != want {
				t.Errorf("strict says\n%s\nwant\n%s", stderr, want)
			}
			warned, stderr, code := convertText(t, test.in, append(test.args, "--validate=warn")...)
			want = ""
			for _, line := range test.want {
				want += "kapok: warning: " + line + "\n"
			}
			if stderr != want || code != 0 || warned == "" {
				t.Errorf("warn says, exit code %d\n%s\nwant\n%s", code, stderr, want)
			}
			out, stderr, code = convertText(t, test.in, append(test.args, "--validate=ignore")...)
			if stderr != "" || code != 0 || out != warned {
				t.Errorf("ignore: exit code %d\n%s%s\nwant\n%s", code, stderr, out, warned)
			}
		})
	}
}

// TestConvertIgnore checks that a custom resource loses unknown fields, as in a server.
func TestConvertIgnore(t *testing.T) {
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(crd, []byte(atDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	in := strings.Replace(at, "metadata: {name: a}", "metadata: {name: a, nam: b}", 1) + "other: 1\n"
	out, _, _ := convertText(t, in, "--crd", crd, "--validate=ignore")
	if want := "apiVersion: cnat.example.com/v1\nkind: At\nmetadata:\n  name: a\nspec:\n  retries: 3\n  schedule: now\n"; out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
