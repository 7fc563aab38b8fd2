//go:build emit

// Command emit writes the schemas of the generated package types: one definition a line (name, tab,
// JSON), sorted by name, so that the diff for a new Kubernetes release is readable. If the schema
// for OpenAPI v2 differs from that for v3, a line with the suffix "@v2" has it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/openapi/gen/emit/types"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const extensionKinds = "x-kubernetes-group-version-kind"

var unfinished = regexp.MustCompile(`\.v\d+(alpha|beta)\d+$`)

// retired are versions that the server accepts although Kubernetes has removed them.
var retired = []string{
	"io.k8s.api.apps.v1beta1", "io.k8s.api.apps.v1beta2", "io.k8s.api.batch.v1beta1", "io.k8s.api.coordination.v1beta1",
	"io.k8s.api.extensions.v1beta1", "io.k8s.api.node.v1beta1", "io.k8s.api.policy.v1beta1", "io.k8s.api.scheduling.v1beta1",
	"io.k8s.api.storage.v1beta1",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1",
	"io.k8s.api.discovery.v1beta1", "io.k8s.api.networking.v1beta1",
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: emit FILE")
	}
	if err := emit(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func emit(file string) error {
	kinds, err := kindsByName()
	if err != nil {
		return err
	}
	var lines []string
	definitions := types.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(name))
	})
	for _, name := range slices.Sorted(maps.Keys(kept(definitions))) {
		schema := definitions[name].Schema
		if v2, ok := schema.Extensions[common.ExtensionV2Schema]; ok {
			line, err := marshal(v2)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			lines = append(lines, fmt.Sprintf("%s@v2\t%s\n", name, line))
		}
		line, err := encode(schema, kinds[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\n", name, line))
	}

	more, err := autoscalers(lines)
	if err != nil {
		return err
	}
	lines = append(lines, more...)
	slices.Sort(lines)
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}

// kept returns the definitions of stable versions and what they refer to, and those of some beta
// versions that older documents use and the server accepts.
func kept(definitions map[string]common.OpenAPIDefinition) map[string]bool {
	keep := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if keep[name] {
			return
		}
		keep[name] = true
		for _, dependency := range definitions[name].Dependencies {
			add(dependency)
		}
	}
	for name := range definitions {
		version := name[:strings.LastIndexByte(name, '.')]
		if !unfinished.MatchString(version) || slices.Contains(retired, version) {
			add(name)
		}
	}
	return keep
}

// encode returns the JSON of a definition as a server publishes it: with its kinds, and with
// references that have siblings wrapped as OpenAPI v3 requires.
func encode(schema spec.Schema, kinds []any) ([]byte, error) {
	extensions := maps.Clone(schema.Extensions)
	if extensions == nil {
		extensions = spec.Extensions{}
	}
	delete(extensions, common.ExtensionV2Schema)
	if kinds != nil {
		extensions[extensionKinds] = kinds
	}
	schema.Extensions = extensions
	return marshal(util.WrapRefs(&schema))
}

// marshal encodes with sorted keys, which not every encoder of a schema does, and without escaping
// HTML.
func marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	var generic any
	if err := decoder.Decode(&generic); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(generic); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// kindsByName returns the kinds of every definition. Some, such as DeleteOptions, belong to every
// group.
func kindsByName() (map[string][]any, error) {
	extra := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme, apiregistrationv1beta1.AddToScheme,
		admissionv1.AddToScheme, admissionv1beta1.AddToScheme, imagepolicyv1alpha1.AddToScheme,
	} {
		if err := add(extra); err != nil {
			return nil, err
		}
	}
	kinds := map[string][]any{}
	known := slices.Collect(maps.Keys(extra.AllKnownTypes()))
	slices.SortFunc(known, func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.Group+"\x00"+a.Version+"\x00"+a.Kind, b.Group+"\x00"+b.Version+"\x00"+b.Kind)
	})
	for _, gvk := range known {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		name, err := extra.ToOpenAPIDefinitionName(gvk)
		if err != nil {
			return nil, err
		}
		kinds[name] = append(kinds[name], map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind})
	}
	return kinds, nil
}
