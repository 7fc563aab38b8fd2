package generate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/derive"

	"sigs.k8s.io/controller-tools/pkg/applyconfiguration"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/controller-tools/pkg/rbac"
	"sigs.k8s.io/controller-tools/pkg/schemapatcher"
	"sigs.k8s.io/controller-tools/pkg/webhook"
)

// generators are the generators by their names on the command line: those of controller-gen, and
// ours on its library.
func generators() map[string]genall.Generator {
	return map[string]genall.Generator{
		"object":             deepcopy.Generator{},
		"crd":                crd.Generator{},
		"rbac":               rbac.Generator{},
		"webhook":            webhook.Generator{},
		"applyconfiguration": applyconfiguration.Generator{},
		"schemapatch":        schemapatcher.Generator{},
		"docs":               derive.Docs{},
		"jsonschema":         derive.JSONSchema{},
		"samples":            derive.Samples{},
		"typescript":         derive.TypeScript{},
	}
}

// names are the names of all generators.
func names() []string {
	all := slices.Collect(maps.Keys(generators()))
	return slices.Sorted(slices.Values(slices.AppendSeq(all, maps.Keys(codeOptions()))))
}

// outputs are the forms of output by their names on the command line.
func outputs() map[string]genall.OutputRule {
	return map[string]genall.OutputRule{
		"dir":       genall.OutputToDirectory(""),
		"none":      genall.OutputToNothing,
		"stdout":    genall.OutputToStdout,
		"artifacts": genall.OutputArtifacts{},
	}
}

// registry returns the options of the command line, each of which is defined like a marker.
func registry() (*markers.Registry, error) {
	r := &markers.Registry{}
	define := func(name string, value any) error {
		definition, err := markers.MakeDefinition(name, markers.DescribesPackage, value)
		if err != nil {
			return fmt.Errorf("define the option %s: %w", name, err)
		}
		if err := r.Register(definition); err != nil {
			return fmt.Errorf("define the option %s: %w", name, err)
		}
		if helpful, ok := value.(genall.HasHelp); ok {
			if help := helpful.Help(); help != nil {
				r.AddHelp(definition, help)
			}
		}
		return nil
	}
	for form, rule := range outputs() {
		if err := define("output:"+form, rule); err != nil {
			return nil, err
		}
	}
	for name, generator := range generators() {
		if err := define(name, generator); err != nil {
			return nil, err
		}
		for form, rule := range outputs() {
			if err := define("output:"+name+":"+form, rule); err != nil {
				return nil, err
			}
		}
	}
	for name, options := range codeOptions() {
		if err := define(name, options); err != nil {
			return nil, err
		}
	}
	if err := genall.RegisterOptionsMarkers(r); err != nil {
		return nil, fmt.Errorf("define the common options: %w", err)
	}
	return r, nil
}

// checkOptions returns an error for an option that does not exist. Package genall reports some of
// these only as a missing definition.
func checkOptions(r *markers.Registry, options []string) error {
	for _, option := range options {
		if r.Lookup("+"+option, markers.DescribesPackage) != nil {
			continue
		}
		name, _, _ := strings.Cut(option, "=")
		var names []string
		for _, d := range r.AllDefinitions() {
			names = append(names, d.Name)
		}
		if strings.Contains(option, "/") && !strings.ContainsAny(option, "=:") {
			return fmt.Errorf("unknown option %q: a pattern of packages begins with ./", option)
		}
		return fmt.Errorf("unknown option %q%s", option, didYouMean(name, names, ""))
	}
	return nil
}
