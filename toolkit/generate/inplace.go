package generate

import (
	"path/filepath"

	conversionargs "k8s.io/code-generator/cmd/conversion-gen/args"
	conversion "k8s.io/code-generator/cmd/conversion-gen/generators"
	deepcopyargs "k8s.io/code-generator/cmd/deepcopy-gen/args"
	codedeepcopy "k8s.io/code-generator/cmd/deepcopy-gen/generators"
	defaulterargs "k8s.io/code-generator/cmd/defaulter-gen/args"
	defaulter "k8s.io/code-generator/cmd/defaulter-gen/generators"
	lifecycleargs "k8s.io/code-generator/cmd/prerelease-lifecycle-gen/args"
	lifecycle "k8s.io/code-generator/cmd/prerelease-lifecycle-gen/prerelease-lifecycle-generators"
	registerargs "k8s.io/code-generator/cmd/register-gen/args"
	register "k8s.io/code-generator/cmd/register-gen/generators"
	"k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/namer"
)

// inPlace runs a generator that writes a file beside the types.
func (c *codeRun) inPlace(name, header string, lint, peers []string) error {
	var inputs []string
	for _, p := range c.with(name) {
		inputs = append(inputs, p.path)
	}
	of := inPlaceGenerators()[name]
	for _, p := range c.packages {
		c.out.owns(of.program, filepath.Join(p.dir, of.file))
	}
	if len(inputs) == 0 {
		return nil
	}
	return c.run(of.program, of.names, of.order, inputs, func(gc *generator.Context) []generator.Target {
		return of.targets(gc, inPlaceFile{of.file, header, lint, peers})
	})
}

// An inPlaceGenerator is a generator that writes a file beside the types.
type inPlaceGenerator struct {
	program, file string
	names         namer.NameSystems
	order         string
	targets       func(gc *generator.Context, f inPlaceFile) []generator.Target
}

// An inPlaceFile is what all these generators need.
type inPlaceFile struct {
	name, header string
	lint, peers  []string
}

// inPlaceGenerators are these generators by their names on the command line. The names of their
// files are those of kube_codegen.sh.
func inPlaceGenerators() map[string]inPlaceGenerator {
	return map[string]inPlaceGenerator{
		"deepcopy": {
			"deepcopy-gen", "zz_generated.deepcopy.go", codedeepcopy.NameSystems(), codedeepcopy.DefaultNameSystem(),
			func(gc *generator.Context, f inPlaceFile) []generator.Target {
				a := deepcopyargs.New()
				a.OutputFile, a.GoHeaderFile, a.LintRules = f.name, f.header, f.lint
				return codedeepcopy.GetTargets(gc, a)
			},
		},
		"defaulter": {
			"defaulter-gen", "zz_generated.defaults.go", defaulter.NameSystems(), defaulter.DefaultNameSystem(),
			func(gc *generator.Context, f inPlaceFile) []generator.Target {
				a := defaulterargs.New()
				a.OutputFile, a.GoHeaderFile, a.LintRules = f.name, f.header, f.lint
				return defaulter.GetTargets(gc, a)
			},
		},
		"conversion": {
			"conversion-gen", "zz_generated.conversion.go", conversion.NameSystems(), conversion.DefaultNameSystem(),
			func(gc *generator.Context, f inPlaceFile) []generator.Target {
				a := conversionargs.New()
				a.OutputFile, a.GoHeaderFile, a.LintRules, a.ExtraPeerDirs = f.name, f.header, f.lint, f.peers
				return conversion.GetTargets(gc, a)
			},
		},
		"register": {
			"register-gen", "zz_generated.register.go", register.NameSystems(), register.DefaultNameSystem(),
			func(gc *generator.Context, f inPlaceFile) []generator.Target {
				a := registerargs.New()
				a.OutputFile, a.GoHeaderFile, a.LintRules = f.name, f.header, f.lint
				return register.GetTargets(gc, a)
			},
		},
		"lifecycle": {
			"prerelease-lifecycle-gen", "zz_generated.prerelease-lifecycle.go", lifecycle.NameSystems(), lifecycle.DefaultNameSystem(),
			func(gc *generator.Context, f inPlaceFile) []generator.Target {
				a := lifecycleargs.New()
				a.OutputFile, a.GoHeaderFile, a.LintRules = f.name, f.header, f.lint
				return lifecycle.GetTargets(gc, a)
			},
		},
	}
}
