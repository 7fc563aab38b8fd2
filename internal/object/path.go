package object

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Place is where kube-apiserver stores the objects of a resource in etcd.
type Place struct {
	Resource schema.GroupResource
	// Path follows the prefix of etcd's keys (/registry by default), without slashes around it:
	// "pods", "services/specs".
	Path string
	// Only is the name of the single object of the resource. Default: objects have any name.
	Only string
}

// Paths translates between keys of objects and the keys under which kube-apiserver stores them in
// etcd, without their prefix: the path of the resource, then the namespace if there is one, then
// the name. Error messages contain these paths, and encryption at rest binds ciphertext to them.
//
// Objects of resources that have no Place are stored under group/resource, as those of custom
// resources are. Paths is immutable; a nil one has no places.
type Paths struct {
	byPath     map[string]Place
	byResource map[schema.GroupResource]string
}

// NewPaths returns the Paths with these places. A path has at most two segments.
func NewPaths(places []Place) *Paths {
	p := &Paths{byPath: map[string]Place{}, byResource: map[schema.GroupResource]string{}}
	for _, place := range places {
		p.byPath[place.Path] = place
		p.byResource[place.Resource] = place.Path
	}
	return p
}

// Of returns the path of a key.
func (p *Paths) Of(k Key) string { return p.Resource(k.Resource) + k.inResource() }

// Resource returns the prefix of the paths of all objects of a resource. It ends with a slash.
func (p *Paths) Resource(r schema.GroupResource) string {
	if p != nil {
		if path, ok := p.byResource[r]; ok {
			return "/" + path + "/"
		}
	}
	return customPath(r)
}

// Parse is the inverse of Of. It rejects paths of other data that kube-apiserver stores in etcd.
func (p *Paths) Parse(path string) (Key, error) {
	below, ok := strings.CutPrefix(path, "/")
	if !ok {
		return Key{}, notAnObject(path)
	}
	first, rest, _ := strings.Cut(below, "/")
	second, inGroup, _ := strings.Cut(rest, "/")
	if p != nil {
		place, ok := p.byPath[first]
		if !ok {
			place, ok = p.byPath[first+"/"+second]
			rest = inGroup
		}
		if ok {
			k, err := keyIn(place.Resource, rest, path)
			if err == nil && place.Only != "" && (k.Namespace != "" || k.Name != place.Only) {
				err = notAnObject(path)
			}
			return k, err
		}
	}
	if !strings.Contains(first, ".") { // the groups of custom resources have a dot
		return Key{}, fmt.Errorf("%w: no kind is stored under /%s", notAnObject(path), first)
	}
	return keyIn(schema.GroupResource{Group: first, Resource: second}, inGroup, path)
}

// Under returns the path of a key whose resource is stored under the given path, as in
// Place.Path; "" means group/resource.
func (k Key) Under(path string) string {
	if path == "" {
		return customPath(k.Resource) + k.inResource()
	}
	return "/" + path + "/" + k.inResource()
}

func (k Key) inResource() string {
	if k.Namespace != "" {
		return k.Namespace + "/" + k.Name
	}
	return k.Name
}

func customPath(r schema.GroupResource) string {
	if r.Group == "" {
		return "/" + r.Resource + "/"
	}
	return "/" + r.Group + "/" + r.Resource + "/"
}

func keyIn(resource schema.GroupResource, rest, path string) (Key, error) {
	namespace, name, ok := strings.Cut(rest, "/")
	if !ok {
		namespace, name = "", namespace
	}
	if resource.Resource == "" || name == "" || ok && namespace == "" || strings.Contains(name, "/") {
		return Key{}, notAnObject(path)
	}
	return Key{Resource: resource, Namespace: namespace, Name: name}, nil
}

func notAnObject(path string) error { return fmt.Errorf("%q is not the path of an object", path) }
