package openapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"
)

// part is the content of one document of OpenAPI v3, and a unit of the document of v2.
type part struct {
	name      string // path of the document below /openapi/v3
	version   string // the server's
	resources []*Resource
	hash      string // of all of the above
}

// custom reports whether the part has custom kinds only.
func (p *part) custom() bool {
	return len(p.resources) > 0 && !slices.ContainsFunc(p.resources, func(r *Resource) bool { return r.Custom == nil })
}

// index groups the resources into parts, once.
func (s *Snapshot) index() (map[string]*part, string) {
	s.once.Do(func() {
		s.parts = map[string]*part{}
		add := func(name string, resource *Resource) {
			p := s.parts[name]
			if p == nil {
				p = &part{name: name, version: s.Version}
				s.parts[name] = p
			}
			if resource != nil {
				p.resources = append(p.resources, resource)
			}
		}
		for _, name := range []string{"api", "apis", "version"} {
			add(name, nil)
		}
		for i := range s.Resources {
			r := &s.Resources[i]
			add(r.root(), r)
			if r.Group != "" && r.Custom == nil {
				add("apis/"+r.Group, nil)
			}
		}
		all := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(s.parts)) {
			p := s.parts[name]
			slices.SortFunc(p.resources, func(a, b *Resource) int { return cmp.Compare(a.Plural, b.Plural) })
			p.hash = p.fingerprint()
			fmt.Fprintln(all, name, p.hash)
		}
		for _, f := range s.Foreign {
			fmt.Fprintln(all, f.Name, f.URL, f.V2Tag)
		}
		s.hash = fmt.Sprintf("%X", all.Sum(nil))
	})
	return s.parts, s.hash
}

// format is incremented when the same input results in another document, because clients cache
// documents by their hash.
const format = 1

// fingerprint hashes the input of a document, which is much less work than making it.
func (p *part) fingerprint() string {
	hash := sha256.New()
	fmt.Fprintln(hash, format, p.name, p.version, definitionsHash())
	encoder := json.NewEncoder(hash)
	for _, r := range p.resources {
		plain := struct {
			Resource
			Custom string
		}{Resource: *r}
		if r.Custom != nil {
			plain.Custom = r.Custom.Fingerprint
		}
		// Only strings, booleans and lists of them: encoding does not fail.
		_ = encoder.Encode(plain)
	}
	return fmt.Sprintf("%X", hash.Sum(nil))
}

// definitionsHash is the hash of the schemas of all built-in kinds.
var definitionsHash = sync.OnceValue(func() string {
	hash := sha256.New()
	for name, raw := range kindsopenapi.Builtin().All() {
		fmt.Fprintln(hash, name, raw)
	}
	return fmt.Sprintf("%X", hash.Sum(nil))
})

// discovery describes the paths of discovery.
func (p *part) discovery() []operation {
	o := operation{
		path: "/" + p.name + "/", method: http.MethodGet, answers: []int{200},
		consumes: []string{typeJSON, typeYAML, typeProtobuf}, produces: []string{typeJSON, typeYAML, typeProtobuf},
	}
	names := strings.Split(p.name, "/")
	switch {
	case p.custom():
		return nil // the paths of CustomResourceDefinitions come and go; Kubernetes describes their resources only
	case p.name == "version":
		o.id, o.tag, o.about, o.answer = "getCodeVersion", "version", "get the version information for this server", "io.k8s.apimachinery.pkg.version.Info"
		o.consumes, o.produces = []string{typeJSON}, []string{typeJSON}
	case p.name == "api":
		o.id, o.tag, o.about, o.answer = "getCoreAPIVersions", "core", "get available API versions", metaV1+"APIVersions"
	case p.name == "apis":
		o.id, o.tag, o.about, o.answer = "getAPIVersions", "apis", "get available API versions", metaV1+"APIGroupList"
	case len(names) == 2 && names[0] == "apis":
		o.id, o.tag = operationID("get", names[1], "", "APIGroup"), identifier(shortGroup(names[1]), false)
		o.about, o.answer = "get information of a group", metaV1+"APIGroup"
	default:
		r := p.resources[0]
		o.id, o.tag = operationID("get", r.Group, r.Version, "APIResources"), tag(r.Group, r.Version)
		o.about, o.answer = "get available resources", metaV1+"APIResourceList"
	}
	return []operation{o}
}

// operations describes all paths of the part.
func (p *part) operations() []operation {
	operations := p.discovery()
	for _, r := range p.resources {
		operations = append(operations, r.operations()...)
	}
	return operations
}
