package generate

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	applyargs "k8s.io/code-generator/cmd/applyconfiguration-gen/args"
	applyconfiguration "k8s.io/code-generator/cmd/applyconfiguration-gen/generators"
	clientargs "k8s.io/code-generator/cmd/client-gen/args"
	client "k8s.io/code-generator/cmd/client-gen/generators"
	clienttypes "k8s.io/code-generator/cmd/client-gen/types"
	informerargs "k8s.io/code-generator/cmd/informer-gen/args"
	informer "k8s.io/code-generator/cmd/informer-gen/generators"
	listerargs "k8s.io/code-generator/cmd/lister-gen/args"
	lister "k8s.io/code-generator/cmd/lister-gen/generators"
	codeutil "k8s.io/code-generator/pkg/util"
	"k8s.io/gengo/v2/generator"
)

// versionDir matches the directories of versions, for which clients are generated.
var versionDir = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// clients generates what gen_client of kube_codegen.sh does.
func (c *codeRun) clients(o clientOptions) error {
	pkg, err := importPath(o.Dir, o.Pkg)
	if err != nil {
		return err
	}
	clientset, versioned := cmp.Or(o.Clientset, "clientset"), cmp.Or(o.Versioned, "versioned")
	listers, informers, applies := cmp.Or(o.Listers, "listers"), cmp.Or(o.Informers, "informers"), cmp.Or(o.ApplyConfigDirectory, "applyconfiguration")
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
