package scaffold

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

// controllerTools is the line of a Makefile with the version of controller-gen.
var controllerTools = regexp.MustCompile(`(?m)^CONTROLLER_TOOLS_VERSION \?= .*$`)

// putMakefileOnKapok makes the target test of a new Makefile run without programs that it would
// have to download. Its controller-gen has the version of the one in this program, so that both
// write the same files.
func putMakefileOnKapok(files machinery.Filesystem, testEnv string) error {
	data, err := afero.ReadFile(files.FS, "Makefile")
	if err != nil {
		return err
	}
	if !controllerTools.Match(data) {
		return fmt.Errorf("the Makefile of kubebuilder has no CONTROLLER_TOOLS_VERSION")
	}
	text := controllerTools.ReplaceAllString(string(data), "CONTROLLER_TOOLS_VERSION ?= "+generate.VersionOf("sigs.k8s.io/controller-tools"))
	if testEnv != onEnvtest {
		before, rest, found := strings.Cut(text, "test: manifests generate fmt vet setup-envtest ## Run tests.\n\tKUBEBUILDER_ASSETS=")
		line, after, isLine := strings.Cut(rest, "\n")
		_, command, isTest := strings.Cut(line, `" go test `)
		if !found || !isLine || !isTest {
			return fmt.Errorf("the Makefile of kubebuilder has no target test of the known form")
		}
		text = before + "test: manifests generate fmt vet ## Run tests.\n\tgo test " + command + "\n" + after
	}
	return afero.WriteFile(files.FS, "Makefile", []byte(text), 0o644)
}

// addCommands adds to a new project the commands that need neither make nor a cluster: to its
// README, and for go generate to main.go.
func addCommands(files machinery.Filesystem, testEnv string) error {
	main := filepath.Join("cmd", "main.go")
	if err := insert(files, main, packageMain, "//go:generate kapok generate\n\n"); err != nil {
		return err
	}
	readme, err := afero.ReadFile(files.FS, "README.md")
	if err != nil {
		return err
	}
	if err := afero.WriteFile(files.FS, "README.md", goVersion.ReplaceAll(readme, []byte("- Go, in the version that go.mod has or a newer one")), 0o644); err != nil {
		return err
	}
	tests, test := "tests them and ", "go test ./internal/...\n"
	if testEnv == onEnvtest { // which must be downloaded
		tests, test = "", ""
	}
	return insert(files, "README.md", prerequisites, fmt.Sprintf(withoutCluster, tests, test))
}

// goVersion is the line of the README with the version of Go. It is not the one that go.mod
// requires.
var goVersion = regexp.MustCompile(`(?m)^- go version .*$`)

// The end of a new sample: without fields, kubebuilder's is null, which no server takes for an
// object.
const (
	emptySample    = "\nspec:\n  # TODO(user): Add fields here\n"
	completeSample = "\n# TODO(user): Add fields here\nspec: {}\n"
)

// completeSample makes the new sample of a kind one that a server accepts.
func (s *apiStep) completeSample(files machinery.Filesystem, r *resource.Resource) error {
	path := filepath.Join("config", "samples", r.Replacer().Replace("%[group]_%[version]_%[kind].yaml"))
	data, err := afero.ReadFile(files.FS, path)
	if err != nil || !strings.HasSuffix(string(data), emptySample) {
		return nil // the user's
	}
	return afero.WriteFile(files.FS, path, []byte(strings.TrimSuffix(string(data), emptySample)+completeSample), 0o644)
}

// withoutCluster is a section of the README.
const withoutCluster = `### To develop without a cluster
With Go and kapok alone, this generates code and manifests after a change of types or markers, %sruns the operator
together with a server, and again after each change:

` + "```sh" + `
kapok generate
%skapok dev
` + "```" + `

**Without make**, the CRDs, and then all manifests with the image that ` + "`config/manager/kustomization.yaml`" + ` names, are applied to the
server of your kubeconfig by:

` + "```sh" + `
kapok kubectl apply --server-side -k config/crd
kapok kubectl apply --server-side -k config/default
` + "```" + `

`

// Lines before which addCommands inserts something.
var (
	packageMain   = regexp.MustCompile(`(?m)^package main$`)
	prerequisites = regexp.MustCompile(`(?m)^### Prerequisites$`)
)

// insert inserts a text into a file, before a line that it has.
func insert(files machinery.Filesystem, name string, before *regexp.Regexp, text string) error {
	data, err := afero.ReadFile(files.FS, name)
	if err != nil {
		return err
	}
	at := before.FindIndex(data)
	if at == nil {
		return fmt.Errorf("%s of kubebuilder has no line %s", name, before)
	}
	return afero.WriteFile(files.FS, name, slices.Insert(data, at[0], []byte(text)...), 0o644)
}
