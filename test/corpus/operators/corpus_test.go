// Package operators runs Kapok on the manifests of published operators: their
// CustomResourceDefinitions, and the objects in their examples, tests and documents.
//
// The manifests are those of Go modules, which testdata/modules/go.mod names and which are read
// from the module cache: none of them is part of this repository. The judge is
// k8s.io/apiextensions-apiserver, whose packages are called in the order in which kube-apiserver
// calls them, and k8s.io/apimachinery for field management. Kapok must return the same result with
// the same messages, and the same object.
//
//	go test .                     sized for a minute on two cores
//	go test . -long               every variant of every definition, and many more random objects
//	KAPOK_SEED=random go test .   other random objects
//	go test . -run - -bench .
package operators

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var long = flag.Bool("long", false, "compare every variant of every definition, and many more random objects")

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil // field management logs what it cannot decode, which takes time
	flag.Parse()
	os.Exit(m.Run())
}

// A corpus is the contents of the modules.
type corpus struct {
	modules int
	// variants are the definitions by name, as different modules or files have them, the largest
	// one first.
	variants map[string][]*definition
	names    []string // sorted
	// objects are the distinct manifests of defined kinds.
	objects []*manifest
}

// A definition is a CustomResourceDefinition.
type definition struct {
	from string
	raw  []byte // the original, in JSON
	crd  *apiextensionsv1.CustomResourceDefinition
}

// String returns the source of a definition.
func (d *definition) String() string { return d.crd.Name + " of " + d.from }

// loaded is the corpus, which is read once.
var loaded = sync.OnceValues(readCorpus)

func load(t testing.TB) *corpus {
	t.Helper()
	c, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readCorpus() (*corpus, error) {
	modules, err := download()
	if err != nil {
		return nil, err
	}
	c := &corpus{modules: len(modules), variants: map[string][]*definition{}}
	var found []document
	for _, m := range modules {
		documents, err := documents(m)
		if err != nil {
			return nil, err
		}
		found = append(found, documents...)
	}
	parsed := make([]*manifest, len(found))
	definitions := make([]*definition, len(found))
	parallel(len(found), func(i int) {
		m := parse(found[i])
		if parsed[i] = m; m == nil || m.group != apiextensions.GroupName || m.kind != "CustomResourceDefinition" {
			return
		}
		parsed[i] = nil
		definitions[i] = readDefinition(m)
	})
	seen := map[string]bool{}
	for _, d := range definitions {
		if d == nil {
			continue
		}
		spec, err := json.Marshal(d.crd.Spec)
		if err != nil {
			return nil, fmt.Errorf("encode %v: %w", d, err)
		}
		if key := d.crd.Name + string(spec); !seen[key] { // variants differ in more than annotations
			seen[key] = true
			c.variants[d.crd.Name] = append(c.variants[d.crd.Name], d)
		}
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for name, variants := range c.variants {
		slices.SortStableFunc(variants, func(a, b *definition) int { return cmp.Compare(len(b.raw), len(a.raw)) })
		c.names = append(c.names, name)
		for _, d := range variants {
			for _, v := range d.crd.Spec.Versions {
				kinds[schema.GroupVersionKind{Group: d.crd.Spec.Group, Version: v.Name, Kind: d.crd.Spec.Names.Kind}] = true
			}
		}
	}
	slices.Sort(c.names)
	for _, m := range parsed {
		if m != nil && kinds[m.gvk()] && !seen[string(m.fingerprint[:])] {
			seen[string(m.fingerprint[:])] = true
			c.objects = append(c.objects, m)
		}
	}
	return c, nil
}

func (m *manifest) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: m.group, Version: m.version, Kind: m.kind}
}

// scheme has CustomResourceDefinitions in all versions.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
})

// readDefinition decodes a CustomResourceDefinition of any version; nil if the document is a patch
// of one, or none.
func readDefinition(m *manifest) *definition {
	metadata, _ := m.object["metadata"].(tree)
	spec, _ := m.object["spec"].(tree)
	if metadata["name"] == nil || spec["group"] == nil {
		return nil
	}
	delete(metadata, "resourceVersion") // clients must not send it
	raw, err := json.Marshal(m.object)
	if err != nil {
		return nil
	}
	codecs := serializer.NewCodecFactory(scheme())
	internal, err := runtime.Decode(codecs.UniversalDecoder(apiextensions.SchemeGroupVersion), raw)
	if err != nil {
		return nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := scheme().Convert(internal, crd, nil); err != nil {
		return nil
	}
	return &definition{from: m.from, raw: raw, crd: crd}
}

// round returns the i-th variant of each definition that has as many: definitions that one server
// can have at the same time.
func (c *corpus) round(i int) (round []*definition) {
	for _, name := range c.names {
		if variants := c.variants[name]; i < len(variants) {
			round = append(round, variants[i])
		}
	}
	return round
}

// rounds returns the number of rounds.
func (c *corpus) rounds() (n int) {
	for _, variants := range c.variants {
		n = max(n, len(variants))
	}
	return n
}

// A version is one version of a definition.
type version struct {
	*definition
	apiextensionsv1.CustomResourceDefinitionVersion
}

func (v *version) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v.crd.Spec.Group, Version: v.Name, Kind: v.crd.Spec.Names.Kind}
}

func (v *version) String() string { return v.Name + " of " + v.definition.String() }

// schema returns the schema of the version, nil if it has none.
func (v *version) schema() *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil {
		return nil
	}
	return v.Schema.OpenAPIV3Schema
}

// versions returns all versions of definitions.
func versions(definitions []*definition) (all []*version) {
	for _, d := range definitions {
		for _, v := range d.crd.Spec.Versions {
			all = append(all, &version{d, v})
		}
	}
	return all
}

func clone(v any) any { return runtime.DeepCopyJSONValue(v) }

func toJSON(v any) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(out.Bytes()))
}
