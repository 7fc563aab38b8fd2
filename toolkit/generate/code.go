package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/packages"
	applyargs "k8s.io/code-generator/cmd/applyconfiguration-gen/args"
	applyconfiguration "k8s.io/code-generator/cmd/applyconfiguration-gen/generators"
	clientargs "k8s.io/code-generator/cmd/client-gen/args"
	client "k8s.io/code-generator/cmd/client-gen/generators"
	clienttypes "k8s.io/code-generator/cmd/client-gen/types"
	conversionargs "k8s.io/code-generator/cmd/conversion-gen/args"
	conversion "k8s.io/code-generator/cmd/conversion-gen/generators"
	deepcopyargs "k8s.io/code-generator/cmd/deepcopy-gen/args"
	codedeepcopy "k8s.io/code-generator/cmd/deepcopy-gen/generators"
	defaulterargs "k8s.io/code-generator/cmd/defaulter-gen/args"
	defaulter "k8s.io/code-generator/cmd/defaulter-gen/generators"
	informerargs "k8s.io/code-generator/cmd/informer-gen/args"
	informer "k8s.io/code-generator/cmd/informer-gen/generators"
	listerargs "k8s.io/code-generator/cmd/lister-gen/args"
	lister "k8s.io/code-generator/cmd/lister-gen/generators"
	lifecycleargs "k8s.io/code-generator/cmd/prerelease-lifecycle-gen/args"
	lifecycle "k8s.io/code-generator/cmd/prerelease-lifecycle-gen/prerelease-lifecycle-generators"
	registerargs "k8s.io/code-generator/cmd/register-gen/args"
	register "k8s.io/code-generator/cmd/register-gen/generators"
	"k8s.io/code-generator/pkg/apidefinitions"
	codeutil "k8s.io/code-generator/pkg/util"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/namer"
	openapiargs "k8s.io/kube-openapi/cmd/openapi-gen/args"
	openapi "k8s.io/kube-openapi/pkg/generators"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// The options of the generators of k8s.io/code-generator and of k8s.io/kube-openapi. They are written
// like those of controller-gen: NAME:field=value,field=value. Each generator takes the packages of the
// option paths that have its tag, as kube_codegen.sh does.
type (
	// inPlace generators write a file beside the types.
	inPlace struct {
		// HeaderFile is the text at the top of each file. Default: hack/boilerplate.go.txt, if it exists.
		HeaderFile string `marker:",optional"`
		// Lint are rules of code-generator for tags: known-tags-only, require-explicit-disablement.
		Lint []string `marker:",optional"`
	}
	// helperOptions are of gen_helpers: deepcopy, defaulter and conversion together.
	helperOptions struct {
		HeaderFile string   `marker:",optional"`
		Lint       []string `marker:",optional"`
		// Peers are packages with further conversion functions.
		Peers []string `marker:",optional"`
	}
	// clientOptions are of gen_client.
	clientOptions struct {
		HeaderFile string   `marker:",optional"`
		Lint       []string `marker:",optional"`
		// Dir is the directory below which packages are generated.
		Dir string
		// Pkg is the import path of Dir. Default: that of the directory in its module.
		Pkg string `marker:",optional"`
		// Watch generates listers and informers. Default: true.
		Watch *bool `marker:",optional"`
		// ApplyConfig generates apply configurations, and methods Apply of the clients. Default: false.
		ApplyConfig bool `marker:"applyconfig,optional"`
		// ApplyConfigSchema is a file with the OpenAPI schema of the types, ApplyConfigExternals are
		// TYPE:PACKAGE of apply configurations elsewhere.
		ApplyConfigSchema    string   `marker:"applyconfigSchema,optional"`
		ApplyConfigExternals []string `marker:"applyconfigExternals,optional"`
		// The names of directories. Defaults: clientset, versioned, listers, informers, applyconfiguration.
		Clientset            string `marker:",optional"`
		Versioned            string `marker:",optional"`
		Listers              string `marker:",optional"`
		Informers            string `marker:",optional"`
		ApplyConfigDirectory string `marker:"applyconfigName,optional"`
		// Plurals are exceptions TYPE:PLURAL.
		Plurals []string `marker:",optional"`
		// Protobuf lets the clients prefer protobuf.
		Protobuf bool `marker:",optional"`
	}
	// openapiOptions are of gen_openapi.
	openapiOptions struct {
		HeaderFile string `marker:",optional"`
		Dir        string
		Pkg        string `marker:",optional"`
		// Packages are further ones.
		Packages []string `marker:",optional"`
		// Report is the file for violations of the API rules. Default: none.
		Report string `marker:",optional"`
		// ModelNames is the name of files with the names of models. Default: none.
		ModelNames string `marker:",optional"`
	}
)

// codeOptions are the code generators by their names on the command line, with what each generates.
func codeOptions() map[string]struct {
	options any
	help    string
} {
	type option = struct {
		options any
		help    string
	}
	return map[string]option{
		"helpers":    {helperOptions{}, "deepcopy, validation, defaulter and conversion together"},
		"deepcopy":   {inPlace{}, "deep copies for packages with +k8s:deepcopy-gen"},
		"defaulter":  {inPlace{}, "functions SetObjectDefaults for packages with +k8s:defaulter-gen"},
		"conversion": {helperOptions{}, "conversions between versions for packages with +k8s:conversion-gen"},
		"validation": {inPlace{}, "the validation of declarative markers for packages with +k8s:validation-gen"},
		"register":   {inPlace{}, "AddToScheme and its variables for packages with +groupName"},
		"lifecycle":  {inPlace{}, "the releases of APIs for packages with +k8s:prerelease-lifecycle-gen"},
		"client":     {clientOptions{}, "clientset, listers, informers and apply configurations for types with +genclient"},
		"openapi":    {openapiOptions{}, "OpenAPI definitions for packages with +k8s:openapi-gen"},
	}
}

// The tags in package comments that ask for a generator.
var tags = map[string]*regexp.Regexp{
	"deepcopy":   regexp.MustCompile(`(?m)^\s*//\s*\+k8s:deepcopy-gen=`),
	"defaulter":  regexp.MustCompile(`(?m)^\s*//\s*\+k8s:defaulter-gen=`),
	"conversion": regexp.MustCompile(`(?m)^\s*//\s*\+k8s:conversion-gen=`),
	"register":   regexp.MustCompile(`(?m)^\s*//\s*\+groupName`),
	"lifecycle":  regexp.MustCompile(`(?m)^\s*//\s*\+k8s:prerelease-lifecycle-gen=`),
	"client":     regexp.MustCompile(`(?m)^\s*//\s*\+genclient`),
	"validation": regexp.MustCompile(`(?m)^\s*//\s*\+k8s:validation-gen=`),
	"openapi":    regexp.MustCompile(`(?m)^\s*//\s*\+k8s:openapi`),
}

// versionDir matches the directories of versions, for which clients are generated.
var versionDir = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

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

// A tagged package may have tags of code generators.
type tagged struct {
	path, dir string
	tags      map[string]bool
}

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
func runCode(ctx context.Context, jobs []job, paths []string, out *output) error {
	if len(paths) == 0 {
		paths = []string{"./..."}
	}
	found, err := findTagged(ctx, paths)
	if err != nil {
		return err
	}
	var inputs []string
	for _, p := range found {
		if slices.Contains(slices.Collect(maps.Values(p.tags)), true) {
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
	g, err := loadTypes(ctx, unrepeated(inputs), out)
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
	out.warnings = append(out.warnings, g.warnings...)
	return g.format(ctx)
}

// findTagged returns packages with their tags of code generators, in the order of their directories.
func findTagged(ctx context.Context, paths []string) ([]tagged, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Mode: packages.NeedName | packages.NeedFiles, BuildFlags: []string{"-tags=" + gengo.StdBuildTag},
	}, paths...)
	if err != nil {
		return nil, plainly(err)
	}
	var all []tagged
	var failed []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			failed = append(failed, relative(err))
		}
		t := tagged{path: p.PkgPath, tags: map[string]bool{}}
		for _, file := range p.GoFiles {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			t.dir = filepath.Dir(file)
			failed = append(failed, misspelt(file, data)...)
			for name, tag := range tags {
				t.tags[name] = t.tags[name] || tag.Match(data)
			}
		}
		if t.dir != "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b tagged) int { return strings.Compare(a.dir, b.dir) })
	return all, errors.Join(unique(failed)...)
}

// knownTags are the tags of the code generators, without their values and what follows a second colon.
var knownTags = []string{
	"genclient",
	"k8s:applyconfiguration-gen", "k8s:client-gen", "k8s:conversion-gen", "k8s:conversion-gen-external-types", "k8s:deepcopy-gen",
	"k8s:defaulter-gen", "k8s:defaulter-gen-input", "k8s:informer-gen", "k8s:lister-gen", "k8s:openapi-gen", "k8s:openapi-model-package",
	"k8s:prerelease-lifecycle-gen", "k8s:protobuf-gen", "k8s:register-gen", "k8s:validation-gen", "k8s:validation-gen-input",
	"k8s:validation-gen-scheme-registry", "k8s:validation-gen-test-fixture",
}

// tagLine matches a tag that may be one of these.
var tagLine = regexp.MustCompile(`(?m)^[ \t]*//[ \t]*\+((?:k8s:)?[a-zA-Z0-9-]+)`)

// misspelt returns an error for each tag that is nearly one of the code generators, which ignore it. Tags
// that are like none belong to other programs.
func misspelt(file string, data []byte) (all []error) {
	for _, at := range tagLine.FindAllSubmatchIndex(data, -1) {
		name := string(data[at[2]:at[3]])
		if slices.Contains(knownTags, name) {
			continue
		}
		for _, known := range knownTags {
			if d := distance(strings.ToLower(name), known); d <= 2 && len(known) > 8 {
				line := 1 + bytes.Count(data[:at[2]], []byte("\n"))
				all = append(all, relative(packages.Error{Pos: fmt.Sprintf("%s:%d", file, line), Msg: fmt.Sprintf("unknown tag +%s (did you mean +%s?)", name, known)}))
				break
			}
		}
	}
	return all
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
	}
	return fmt.Errorf("unknown code generator %s", j.name)
}

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

// inPlaceGenerators are these generators by their names on the command line. The names of their files are
// those of kube_codegen.sh.
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

// clients generates what gen_client of kube_codegen.sh does.
func (c *codeRun) clients(o clientOptions) error {
	pkg, err := importPath(o.Dir, o.Pkg)
	if err != nil {
		return err
	}
	name := func(given, usual string) string {
		if given != "" {
			return given
		}
		return usual
	}
	clientset, versioned := name(o.Clientset, "clientset"), name(o.Versioned, "versioned")
	listers, informers, applies := name(o.Listers, "listers"), name(o.Informers, "informers"), name(o.ApplyConfigDirectory, "applyconfiguration")
	var inputs []string
	var groups []clienttypes.GroupVersions
	for _, p := range c.with("client") {
		version, group := path.Base(p.path), path.Base(path.Dir(p.path))
		if !versionDir.MatchString(version) {
			continue
		}
		inputs = append(inputs, p.path)
		at := slices.IndexFunc(groups, func(g clienttypes.GroupVersions) bool { return g.PackageName == group })
		if at < 0 {
			at, groups = len(groups), append(groups, clienttypes.GroupVersions{PackageName: group, Group: clienttypes.Group(group)})
		}
		groups[at].Versions = append(groups[at].Versions, clienttypes.PackageVersion{Version: clienttypes.Version(version), Package: p.path})
	}
	slices.SortFunc(groups, func(a, b clienttypes.GroupVersions) int { return strings.Compare(a.PackageName, b.PackageName) })
	watch := o.Watch == nil || *o.Watch
	owned := map[string]string{"client-gen": clientset}
	if o.ApplyConfig {
		owned["applyconfiguration-gen"] = applies
	}
	if watch {
		owned["lister-gen"], owned["informer-gen"] = listers, informers
	}
	for program, name := range owned {
		if err := c.out.ownsBelow(program, filepath.Join(o.Dir, name)); err != nil {
			return err
		}
	}
	if len(inputs) == 0 {
		return nil
	}
	plurals := codeutil.PluralExceptionListToMapOrDie(o.Plurals) // checked
	applyPkg := ""
	if o.ApplyConfig {
		applyPkg = path.Join(pkg, applies)
		a := applyargs.New()
		a.OutputDir, a.OutputPkg, a.GoHeaderFile, a.OpenAPISchemaFilePath = filepath.Join(o.Dir, applies), applyPkg, header(o.HeaderFile), o.ApplyConfigSchema
		a.LintRules = o.Lint
		externals := applyargs.NewExternalApplyConfigurationValue(&a.ExternalApplyConfigurations, nil)
		for _, external := range o.ApplyConfigExternals {
			if err := externals.Set(external); err != nil {
				return fmt.Errorf("option client: applyconfigExternals: %w", err)
			}
		}
		if err := c.run("applyconfiguration-gen", applyconfiguration.NameSystems(), applyconfiguration.DefaultNameSystem(), inputs, func(gc *generator.Context) []generator.Target {
			return applyconfiguration.GetTargets(gc, a)
		}); err != nil {
			return err
		}
	}
	a := clientargs.New()
	a.OutputDir, a.OutputPkg, a.GoHeaderFile = filepath.Join(o.Dir, clientset), path.Join(pkg, clientset), header(o.HeaderFile)
	a.ClientsetName, a.ApplyConfigurationPackage, a.Groups = versioned, applyPkg, groups
	a.PluralExceptions, a.PrefersProtobuf, a.LintRules = o.Plurals, o.Protobuf, o.Lint
	if err := c.run("client-gen", client.NameSystems(plurals), client.DefaultNameSystem(), inputs, func(gc *generator.Context) []generator.Target {
		return client.GetTargets(gc, a)
	}); err != nil || !watch {
		return err
	}
	l := listerargs.New()
	l.OutputDir, l.OutputPkg, l.GoHeaderFile = filepath.Join(o.Dir, listers), path.Join(pkg, listers), header(o.HeaderFile)
	l.PluralExceptions, l.LintRules = o.Plurals, o.Lint
	if err := c.run("lister-gen", lister.NameSystems(plurals), lister.DefaultNameSystem(), inputs, func(gc *generator.Context) []generator.Target {
		return lister.GetTargets(gc, l)
	}); err != nil {
		return err
	}
	i := informerargs.New()
	i.OutputDir, i.OutputPkg, i.GoHeaderFile = filepath.Join(o.Dir, informers), path.Join(pkg, informers), header(o.HeaderFile)
	i.PluralExceptions, i.LintRules = o.Plurals, o.Lint
	i.VersionedClientSetPackage, i.ListersPackage = path.Join(pkg, clientset, versioned), path.Join(pkg, listers)
	return c.run("informer-gen", informer.NameSystems(plurals), informer.DefaultNameSystem(), inputs, func(gc *generator.Context) []generator.Target {
		return informer.GetTargets(gc, i)
	})
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
	of := func(targets func(*generator.Context, *openapiargs.Args, []byte) []generator.Target) func(*generator.Context) []generator.Target {
		return func(gc *generator.Context) []generator.Target {
			text, err := gengo.GoBoilerplate(a.GoHeaderFile, gengo.StdBuildTag, gengo.StdGeneratedBy)
			if err != nil {
				panic(err)
			}
			return targets(gc, a, text)
		}
	}
	if o.ModelNames != "" {
		if err := c.run("openapi-gen", openapi.NameSystems(), openapi.DefaultNameSystem(), inputs, of(openapi.GetModelNameTargets)); err != nil {
			return err
		}
	}
	if err := c.run("openapi-gen", openapi.NameSystems(), openapi.DefaultNameSystem(), inputs, of(openapi.GetOpenAPITargets)); err != nil {
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

// header returns the file with the text at the top of files: the given one, or the one of the module.
func header(given string) string {
	if given != "" {
		return given
	}
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if path := filepath.Join(dir, boilerplate); exists(path) {
			return path
		}
		if absolute, err := filepath.Abs(dir); err != nil || exists(filepath.Join(dir, "go.mod")) || filepath.Dir(absolute) == absolute {
			return ""
		}
	}
}

// importPath returns the import path of a directory, which need not exist yet.
func importPath(dir, given string) (string, error) {
	if dir == "" {
		return "", errors.New("dir is empty")
	}
	if given != "" {
		return given, nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for root := absolute; ; root = filepath.Dir(root) {
		data, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			module := modfile.ModulePath(data)
			if module == "" {
				return "", fmt.Errorf("%s has no module path", filepath.Join(root, "go.mod"))
			}
			rel, err := filepath.Rel(root, absolute)
			return path.Join(module, filepath.ToSlash(rel)), err
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if filepath.Dir(root) == root {
			return "", fmt.Errorf("%s is in no module: name its import path in pkg", dir)
		}
	}
}

// checkCode returns an error for options that would end a generator, and the process.
func checkCode(name string, options any) error {
	failed := func(err error) error {
		if err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
		return nil
	}
	switch o := options.(type) {
	case inPlace:
		return failed(apidefinitions.ValidateFlags(o.Lint))
	case helperOptions:
		return failed(apidefinitions.ValidateFlags(o.Lint))
	case clientOptions:
		if err := apidefinitions.ValidateFlags(o.Lint); err != nil {
			return failed(err)
		}
		for _, p := range o.Plurals {
			if strings.Count(p, ":") != 1 {
				return failed(fmt.Errorf("plurals has %q: must be TYPE:PLURAL", p))
			}
		}
		_, err := importPath(o.Dir, o.Pkg)
		return failed(err)
	case openapiOptions:
		_, err := importPath(o.Dir, o.Pkg)
		return failed(err)
	}
	return nil
}

// unrepeated sorts texts and drops repeated ones.
func unrepeated(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}
