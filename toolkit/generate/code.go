package generate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	conversionargs "k8s.io/code-generator/cmd/conversion-gen/args"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// A job is one code generator with its options.
type job struct {
	name    string
	options any
}

// codeJobs takes the options of code generators, and of paths, out of a command line.
func codeJobs(known *markers.Registry, args []string) (jobs []job, paths, rest []string, err error) {
	code := codeOptions()
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		name, _, _ = strings.Cut(name, ":")
		definition := known.Lookup("+"+arg, markers.DescribesPackage)
		if _, ok := code[name]; ok && definition != nil {
			options, err := definition.Parse("+" + arg)
			if err != nil {
				return nil, nil, nil, fmt.Errorf("option %s: %w", arg, err)
			}
			if err := checkCode(name, options); err != nil {
				return nil, nil, nil, err
			}
			jobs = append(jobs, job{name, options})
			continue
		}
		if name == "paths" && definition != nil {
			parsed, err := definition.Parse("+" + arg)
			if err != nil {
				return nil, nil, nil, fmt.Errorf("option %s: %w", arg, err)
			}
			paths = append(paths, parsed.(genall.InputPaths)...)
		}
		rest = append(rest, arg)
	}
	return jobs, paths, rest, nil
}

// runCode runs code generators over the packages that paths match. The packages are loaded once.
func runCode(ctx context.Context, l goList, jobs []job, paths []string, out *output) error {
	if len(paths) == 0 {
		paths = []string{"./..."}
	}
	found, err := findTagged(ctx, l, paths)
	if err != nil {
		return err
	}
	var inputs []string
	for _, p := range found {
		if p.isTagged() {
			inputs = append(inputs, p.path)
		}
	}
	if len(inputs) == 0 {
		return fmt.Errorf("no package of %s has a tag of a code generator", strings.Join(paths, " "))
	}
	for _, j := range jobs {
		switch options := j.options.(type) {
		case openapiOptions:
			inputs = append(append(inputs, apimachinery...), options.Packages...)
		case helperOptions:
			inputs = append(append(inputs, conversionargs.DefaultBasePeerDirs...), options.Peers...)
		}
	}
	g, err := loadTypes(ctx, l, found, unrepeated(inputs), out)
	if err != nil {
		return err
	}
	c := &codeRun{gengoRun: g, packages: found}
	for _, j := range jobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.do(ctx, j); err != nil {
			return err
		}
	}
	return g.format(ctx)
}

// A codeRun runs code generators over loaded packages.
type codeRun struct {
	*gengoRun
	packages []tagged
}

// with returns the packages with the tag of a generator.
func (c *codeRun) with(name string) (all []tagged) {
	for _, p := range c.packages {
		if p.tags[name] {
			all = append(all, p)
		}
	}
	return all
}

func (c *codeRun) do(ctx context.Context, j job) error {
	switch o := j.options.(type) {
	case inPlace:
		if j.name == "validation" {
			return c.validations(ctx, header(o.HeaderFile), o.Lint)
		}
		return c.inPlace(j.name, header(o.HeaderFile), o.Lint, nil)
	case helperOptions:
		names := []string{j.name}
		if j.name == "helpers" {
			names = []string{"deepcopy", "defaulter", "conversion"}
			if err := c.validations(ctx, header(o.HeaderFile), o.Lint); err != nil {
				return err
			}
		}
		for _, name := range names {
			if err := c.inPlace(name, header(o.HeaderFile), o.Lint, o.Peers); err != nil {
				return err
			}
		}
		return nil
	case clientOptions:
		return c.clients(o)
	case openapiOptions:
		return c.openapi(o)
	case protobufOnly:
		return c.protobufs(ctx, header(o.HeaderFile))
	}
	return fmt.Errorf("unknown code generator %s", j.name)
}

// unrepeated sorts texts and drops repeated ones.
func unrepeated(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}
