// Command gen generates ../definitions.txt, the schemas of the built-in kinds, from their Go types.
//
// It works in two steps, because openapi-gen generates Go code, and only running that code returns
// the schemas: gen writes the code to a temporary directory and runs the command emit with it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/kube-openapi/cmd/openapi-gen/args"
	"k8s.io/kube-openapi/pkg/generators"
)

// packages are the Go packages whose types are described. Command emit drops most alpha and beta
// versions.
var packages = []string{
	"k8s.io/api/admissionregistration/v1",
	"k8s.io/api/apps/v1",
	"k8s.io/api/apps/v1beta1",
	"k8s.io/api/apps/v1beta2",
	"k8s.io/api/authentication/v1",
	"k8s.io/api/authorization/v1",
	"k8s.io/api/autoscaling/v1",
	"k8s.io/api/autoscaling/v2",
	"k8s.io/api/batch/v1",
	"k8s.io/api/batch/v1beta1",
	"k8s.io/api/certificates/v1",
	"k8s.io/api/coordination/v1",
	"k8s.io/api/coordination/v1beta1",
	"k8s.io/api/core/v1",
	"k8s.io/api/discovery/v1",
	"k8s.io/api/discovery/v1beta1",
	"k8s.io/api/events/v1",
	"k8s.io/api/extensions/v1beta1",
	"k8s.io/api/flowcontrol/v1",
	"k8s.io/api/networking/v1",
	"k8s.io/api/networking/v1beta1",
	"k8s.io/api/node/v1",
	"k8s.io/api/node/v1beta1",
	"k8s.io/api/policy/v1",
	"k8s.io/api/policy/v1beta1",
	"k8s.io/api/rbac/v1",
	"k8s.io/api/resource/v1",
	"k8s.io/api/scheduling/v1",
	"k8s.io/api/scheduling/v1alpha3",
	"k8s.io/api/scheduling/v1beta1",
	"k8s.io/api/storage/v1",
	"k8s.io/api/storage/v1beta1",
	"k8s.io/api/storagemigration/v1",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1",
	"k8s.io/apimachinery/pkg/api/resource",
	"k8s.io/apimachinery/pkg/apis/meta/v1",
	"k8s.io/apimachinery/pkg/runtime",
	"k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/version",
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
}

func main() {
	out := flag.String("out", filepath.Join("..", "definitions.txt"), "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatal(err)
	}
}

func run(out string) error {
	temp, err := os.MkdirTemp("", "openapi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)

	source := filepath.Join(temp, "zz_types.go")
	if err := describe(temp, filepath.Base(source)); err != nil {
		return fmt.Errorf("describing the types: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	// The generated file replaces emit's own for this build only.
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "emit", "types", "zz_types.go"): source,
	}})
	if err != nil {
		return err
	}
	overlayFile := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return err
	}
	command := exec.Command("go", "run", "-overlay", overlayFile, "-tags", "emit", "./emit", out)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// describe generates Go code whose GetOpenAPIDefinitions returns the schemas of all types of
// packages.
func describe(dir, file string) error {
	options := args.New()
	options.OutputDir = dir
	options.OutputPkg = "github.com/kapok-dev/kapok/internal/kinds/openapi/gen/emit/types"
	options.OutputFile = file
	options.ReportFilename = filepath.Join(dir, "violations") // violations of Kubernetes' style rules in its own sources
	return gengo.Execute(generators.NameSystems(), generators.DefaultNameSystem(),
		func(c *generator.Context) []generator.Target {
			return generators.GetOpenAPITargets(c, options, nil)
		}, gengo.StdBuildTag, packages)
}
