package generate

import (
	"os"
	"slices"

	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	openapiargs "k8s.io/kube-openapi/cmd/openapi-gen/args"
	openapi "k8s.io/kube-openapi/pkg/generators"
)

// apimachinery are the packages whose models the OpenAPI definitions of each API use.
var apimachinery = []string{
	"k8s.io/apimachinery/pkg/apis/meta/v1",
	"k8s.io/apimachinery/pkg/runtime",
	"k8s.io/apimachinery/pkg/version",
	"k8s.io/apimachinery/pkg/api/resource",
}

// readOnly are packages into which no generator writes: those of modules in Go's cache.
func readOnly() []string {
	return append(slices.Clone(apimachinery), "k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/util/intstr", "time")
}

// openapi generates what gen_openapi of kube_codegen.sh does.
func (c *codeRun) openapi(o openapiOptions) error {
	pkg, err := importPath(o.Dir, o.Pkg)
	if err != nil {
		return err
	}
	inputs := append(slices.Clone(apimachinery), o.Packages...)
	for _, p := range c.with("openapi") {
		inputs = append(inputs, p.path)
	}
	report, err := os.CreateTemp("", "kapok-openapi-*")
	if err != nil {
		return err
	}
	defer os.Remove(report.Name())
	if err := report.Close(); err != nil {
		return err
	}
	a := openapiargs.New()
	a.OutputDir, a.OutputPkg, a.OutputFile, a.GoHeaderFile = o.Dir, pkg, "zz_generated.openapi.go", header(o.HeaderFile)
	a.ReportFilename, a.OutputModelNameFile = report.Name(), o.ModelNames
	a.ReadOnlyPkgs = readOnly()
	run := func(targets func(*generator.Context, *openapiargs.Args, []byte) []generator.Target) error {
		var unread error // other generators end the process
		err := c.run("openapi-gen", openapi.NameSystems(), openapi.DefaultNameSystem(), inputs, func(gc *generator.Context) []generator.Target {
			text, err := gengo.GoBoilerplate(a.GoHeaderFile, gengo.StdBuildTag, gengo.StdGeneratedBy)
			if unread = err; err != nil {
				return nil
			}
			return targets(gc, a, text)
		})
		if unread != nil {
			return unread
		}
		return err
	}
	if o.ModelNames != "" {
		if err := run(openapi.GetModelNameTargets); err != nil {
			return err
		}
	}
	if err := run(openapi.GetOpenAPITargets); err != nil {
		return err
	}
	if o.Report == "" {
		return nil
	}
	data, err := os.ReadFile(report.Name())
	if err != nil {
		return err
	}
	c.out.put(o.Report, data)
	return nil
}
