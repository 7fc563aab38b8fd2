package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// code are the code generators with the options of the sample.
const code = "generate helpers register client:dir=pkg/generated,applyconfig=true openapi:dir=pkg/generated/openapi ./pkg/apis/..."

// sample copies the types of testdata/sample, and downloads what they import.
func sample(t *testing.T) *project {
	p := newProject(t)
	if err := os.CopyFS(p.dir, os.DirFS("testdata/sample")); err != nil {
		t.Fatal(err)
	}
	p.tool("mod", "tidy", "-e") // imports of code that does not exist yet are errors
	return p
}

// TestAsKubeCodegen generates code for types with the scripts of k8s.io/code-generator, and
// compares the files with those of kapok generate, which must compile.
func TestAsKubeCodegen(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("kube_codegen.sh needs bash")
	}
	p := sample(t)
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/code-generator").Output()
	if err != nil {
		t.Fatal(err)
	}
	script := `set -e
source "` + strings.TrimSpace(string(root)) + `/kube_codegen.sh"
kube::codegen::gen_helpers --boilerplate hack/boilerplate.go.txt pkg/apis
kube::codegen::gen_register --boilerplate hack/boilerplate.go.txt pkg/apis
kube::codegen::gen_client --with-watch --with-applyconfig --output-dir pkg/generated --output-pkg example.com/sample/pkg/generated --boilerplate hack/boilerplate.go.txt pkg/apis
kube::codegen::gen_openapi --report-filename "$1" --update-report --output-dir pkg/generated/openapi --output-pkg example.com/sample/pkg/generated/openapi --boilerplate hack/boilerplate.go.txt pkg/apis
`
	env := append(os.Environ(), "GOBIN="+filepath.Join(p.temp, "bin"), "GOFLAGS=")
	if code, out := p.command(env, "bash", "-c", script, "bash", filepath.Join(p.temp, "report")); code != 0 {
		t.Fatalf("kube_codegen.sh: exit code %d\n%s", code, out)
	}
	judged := p.state()
	for path := range judged {
		if strings.HasPrefix(filepath.Base(path), "zz_generated.") {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "pkg", "generated")); err != nil {
		t.Fatal(err)
	}
	p.must(code)
	after := p.state()
	if changed := changes(judged, after); len(changed) > 0 {
		t.Errorf("kube_codegen.sh writes other files: %v", changed)
	}
	if len(after) < 70 {
		t.Errorf("only %d files and directories: nothing was compared", len(after))
	}
	p.tool("mod", "tidy")
	p.tool("build", "./...")
}

// TestRealCode generates the code of projects of Kubernetes again, with the options of their
// scripts: their files must stay as they are.
func TestRealCode(t *testing.T) {
	const models = ",applyconfig=true,applyconfigSchema=models.json openapi:dir=pkg/generated/openapi,modelNames=zz_generated.model_name.go ./pkg/apis/..."
	for module, line := range map[string]string{
		"k8s.io/sample-controller@v0.37.1": "generate helpers register client:dir=pkg/generated" + models,
		"k8s.io/sample-apiserver@v0.37.2":  "generate helpers client:dir=pkg/generated" + models,
		"k8s.io/kube-aggregator@v0.37.2":   "generate helpers client:dir=pkg/client,clientset=clientset_generated,versioned=clientset,protobuf=true" + models,
		"k8s.io/apiextensions-apiserver@v0.37.2": "generate helpers client:dir=pkg/client,versioned=clientset,protobuf=true,applyconfig=true,applyconfigSchema=models.json " +
			"openapi:dir=pkg/generated/openapi,modelNames=zz_generated.model_name.go,packages={k8s.io/api/autoscaling/v1} ./pkg/...",
		"k8s.io/api@v0.37.2": "generate deepcopy:headerFile=header.txt lifecycle:headerFile=header.txt ./...",
	} {
		t.Run(path.Base(module), func(t *testing.T) {
			p := newProject(t)
			p.download(module)
			if strings.Contains(line, "models.json") {
				code, out := p.command(os.Environ(), "go", "run", "./pkg/generated/openapi/cmd/models-schema")
				if code != 0 {
					t.Fatal(out)
				}
				p.write("models.json", out[strings.Index(out, "{"):]) // after messages about downloads
			} else {
				text := p.read("apps/v1/zz_generated.deepcopy.go")
				p.write("header.txt", text[strings.Index(text, "/*"):strings.Index(text, "*/")+3])
			}
			before := p.state()
			p.must(line)
			if changed := changes(before, p.state()); len(changed) > 0 {
				t.Errorf("%v have changed", changed)
			}
			// The same again, from nothing.
			removed := 0
			for path := range before {
				isExample := strings.HasPrefix(path, filepath.Join(p.dir, "examples")+string(filepath.Separator)) // of apiextensions-apiserver, with a script of its own
				if name := filepath.Base(path); !isExample && (name == "zz_generated.deepcopy.go" || name == "clientset.go" || name == "factory.go") {
					removed++
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.must(line)
			if changed := changes(before, p.state()); len(changed) > 0 || removed == 0 {
				t.Errorf("%d files are removed, and then %v have changed", removed, changed)
			}
		})
	}
}

// TestCode checks what kapok generate promises of the code generators beyond those of Kubernetes.
func TestCode(t *testing.T) {
	p := sample(t)
	before := p.state()
	if code, out := p.run(code + " --check"); code != 1 || !strings.Contains(out, "not current: pkg/apis/") {
		t.Errorf("--check before generating: exit code %d\n%s", code, out)
	}
	if changed := changes(before, p.state()); len(changed) > 0 {
		t.Errorf("--check writes %v", changed)
	}
	p.must(code)
	p.tool("mod", "tidy")
	p.must(code + " --check")
	if out := p.must(code); out != "" {
		t.Errorf("a second run says\n%s", out)
	}

	// What matters is not overlooked the next time.
	if err := os.MkdirAll(filepath.Join(p.dir, "pkg/generated/listers/old"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("pkg/generated/listers/old/lathe.go", p.read("pkg/generated/listers/workshop/v1/lathe.go"))
	p.write("pkg/generated/clientset/versioned/own.go", "package versioned\n\nconst text = `\n// Code generated by client-gen. DO NOT EDIT.\n`\n")
	for range 2 {
		if code, out := p.run(code + " --check"); code != 1 || !strings.Contains(out, "not current: pkg/generated/listers/old/lathe.go") || strings.Contains(out, "own.go") {
			t.Errorf("with a stale file, --check: exit code %d\n%s", code, out)
		}
	}
	p.must(code)
	link := &project{t, filepath.Join(p.temp, "link"), p.temp}
	if err := os.Symlink(p.dir, link.dir); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PWD", link.dir)
	link.must(code)
	p.write("hack/boilerplate.go.txt", strings.Replace(p.read("hack/boilerplate.go.txt"), "The authors", "All authors", 1))
	if out := link.must(code); !strings.Contains(out, "pkg/apis/workshop/zz_generated.deepcopy.go") {
		t.Errorf("after a change of the header it says\n%s", out)
	}
	const lathe = "pkg/apis/workshop/v1/types.go"
	p.write(lathe, strings.Replace(p.read(lathe), "\tTurned int64 `json:\"turned\"`\n", "\tTurned int64 `json:\"turned\"`\n\tAll *int64 `json:\"all,omitempty\"`\n", 1))
	if out := link.must(code); !strings.Contains(out, "pkg/generated/applyconfiguration/workshop/v1/lathestatus.go") {
		t.Errorf("after a change through a symbolic link it says\n%s", out)
	}
	t.Setenv("PWD", p.dir)
	if err := os.MkdirAll(filepath.Join(p.dir, "third_party/nats.go"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.must(code)

	// A type that is gone takes its files along.
	const types = "pkg/apis/garden/v1beta1/types.go"
	text := p.read(types)
	p.write(types, strings.ReplaceAll(strings.ReplaceAll(text, "Bed", "Pot"), "beds", "pots"))
	out := p.must(code)
	for _, name := range []string{"pkg/generated/listers/garden/v1beta1/bed.go", "pkg/generated/applyconfiguration/garden/v1beta1/bedspec.go"} {
		if !strings.Contains(out, name+" (removed: nothing generates it)") {
			t.Errorf("the file %s is not removed:\n%s", name, out)
		}
	}

	// After an error, no file has changed.
	generated := p.state()
	for _, c := range []struct{ name, old, new, want string }{
		{"a tag with a value that is none", "+genclient:nonNamespaced", "+k8s:deepcopy-gen=maybe", "maybe"},
		{"a misspelt tag", "+genclient:nonNamespaced", "+genclent:nonNamespaced", types + ":12: unknown tag +genclent (did you mean +genclient?)"},
		{"code that cannot be parsed", "type PotList struct {", "type PotList struct", types},
	} {
		pots := p.read(types)
		broken := strings.Replace(pots, c.old, c.new, 1)
		if broken == pots {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		p.write(types, broken)
		code, out := p.run(code)
		if code != 1 || !strings.Contains(out, c.want) || strings.Contains(out, "goroutine ") {
			t.Errorf("%s: exit code %d\n%s", c.name, code, out)
		}
		p.write(types, pots)
		if changed := changes(generated, p.state()); len(changed) > 0 {
			t.Errorf("%s: %v have changed", c.name, changed)
		}
	}
	for line, want := range map[string]string{
		"generate":                               "this directory has no PROJECT",
		"generate helper ./...":                  "(did you mean helpers?)",
		"generate object pkg/apis/...":           "a pattern of packages begins with ./",
		"generate client ./...":                  "missing argument \"dir\"",
		"generate client:dir=x,wach=true ./...":  "wach",
		"generate helpers ./nothing/...":         "nothing",
		"generate client:dir=/ ./...":            "/ is in no module",
		"generate client:dir=x,plurals=a ./...":  "must be TYPE:PLURAL",
		"generate helpers:lint=x ./...":          "unrecognized rule",
		"explain kubebuilder:validation:Minimun": "did you mean +kubebuilder:validation:Minimum?",
	} {
		code, out := p.run(line)
		if code == 0 || !strings.Contains(out, want) {
			t.Errorf("kapok %s: exit code %d\n%s\nwant %q", line, code, out, want)
		}
	}
	if changed := changes(generated, p.state()); len(changed) > 0 {
		t.Errorf("%v have changed", changed)
	}
}

// TestValidations generates the validation of declarative markers.
func TestValidations(t *testing.T) {
	p := sample(t)
	const doc, types = "pkg/apis/workshop/v1/doc.go", "pkg/apis/workshop/v1/types.go"
	p.write(doc, strings.Replace(p.read(doc), "// +groupName", "// +k8s:validation-gen=TypesWithField=TypeMeta\n// +groupName", 1))
	p.write(types, strings.Replace(p.read(types), "\t// Turns a minute.\n", "\t// Turns a minute.\n\t// +k8s:required\n\t// +k8s:minimum=1\n", 1))
	out := p.must("generate helpers ./pkg/apis/...")
	const generated = "pkg/apis/workshop/v1/zz_generated.validations.go"
	if !slices.Contains(strings.Split(out, "\n"), generated) || !strings.Contains(p.read(generated), "validate.Minimum") {
		t.Errorf("it says\n%s", out)
	}
	p.must("generate helpers ./pkg/apis/... --check")

	p.write(types, strings.Replace(p.read(types), "\t// +k8s:required\n", "", 1))
	before := p.state()
	code, out := p.run("generate helpers ./pkg/apis/...")
	if code != 1 || !strings.HasPrefix(out, "kapok: validation-gen: lint failed:\n") || strings.Contains(out, "exit status") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if changed := changes(before, p.state()); len(changed) > 0 {
		t.Errorf("after an error, %v have changed", changed)
	}
}

// TestMarkers lists the markers as controller-gen does, and explains one.
func TestMarkers(t *testing.T) {
	p := newProject(t)
	tool := filepath.Join(t.TempDir(), "controller-gen")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "sigs.k8s.io/controller-tools/cmd/controller-gen")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, flag := range []string{"-w", "-ww", "-www", "-wwww"} {
		_, want := p.command(os.Environ(), tool, "crd", flag)
		if got := p.must("generate crd " + flag); got != want {
			t.Errorf("crd %s differs from controller-gen", flag)
		}
	}
	if out := p.must("explain +kubebuilder:validation:MinLength=3"); !strings.HasPrefix(out, "+kubebuilder:validation:MinLength=<int>\n    on a ") {
		t.Errorf("explain says\n%s", out)
	}
}
