package kinds

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Selection turns versions of built-in kinds on or off, as kube-apiserver's --runtime-config. Its
// keys, from the weakest to the strongest, are:
//
//   - api/all
//   - api/ga, api/beta and api/alpha: the versions of this maturity
//   - GROUP/VERSION, such as batch/v1; the core group is api/v1
//   - GROUP/VERSION/RESOURCE, such as batch/v1/cronjobs
//
// All versions that the definitions have are on unless a key turns them off.
type Selection map[string]bool

// maturities are the names of versions that api/ga, api/beta and api/alpha stand for.
var maturities = map[string]*regexp.Regexp{
	"api/ga":    regexp.MustCompile(`^v\d+$`),
	"api/beta":  regexp.MustCompile(`^v\d+beta\d+$`),
	"api/alpha": regexp.MustCompile(`^v\d+alpha\d+$`),
}

// Apply removes versions from what definitions serve. Objects may still be stored in them, and the
// server itself still uses them. It changes the definitions, but not what they point to. It returns
// an error for a key that names no version or resource of the definitions.
func (s Selection) Apply(definitions []*resource.Definition) error {
	for key := range s {
		if err := checkKey(key, definitions); err != nil {
			return err
		}
	}
	for _, d := range definitions {
		serveOnly(d, func(v *resource.Version) bool { return s.serves(d.GroupVersion(v).WithResource(d.Plural)) })
	}
	return nil
}

// serveOnly stops serving the versions that keep rejects.
func serveOnly(d *resource.Definition, keep func(v *resource.Version) bool) {
	var on, off []*resource.Version
	for _, v := range d.Versions {
		if keep(v) {
			on = append(on, v)
		} else {
			off = append(off, v)
		}
	}
	if len(off) > 0 {
		d.Versions, d.Unserved = on, slices.Concat(d.Unserved, off)
	}
}

// serves reports whether a resource is on in a version.
func (s Selection) serves(gvr schema.GroupVersionResource) bool {
	on := true
	set := func(key string) {
		if value, stated := s[key]; stated {
			on = value
		}
	}
	set("api/all")
	for key, names := range maturities {
		if names.MatchString(gvr.Version) {
			set(key)
		}
	}
	version := keyOf(gvr.GroupVersion())
	set(version)
	set(version + "/" + gvr.Resource)
	return on
}

// keyOf returns the key of a version.
func keyOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return gv.String()
}

// Known returns the selection without the keys that no definition has, such as those of a version
// that only other releases of Kubernetes serve.
func (s Selection) Known(definitions []*resource.Definition) Selection {
	known := maps.Clone(s) // nil for nil
	maps.DeleteFunc(known, func(key string, _ bool) bool { return checkKey(key, definitions) != nil })
	return known
}

func checkKey(key string, definitions []*resource.Definition) error {
	if key == "api/all" || maturities[key] != nil {
		return nil
	}
	versions := map[string]bool{}
	for _, d := range definitions {
		for _, v := range d.Versions {
			version := keyOf(d.GroupVersion(v))
			if key == version || key == version+"/"+d.Plural {
				return nil
			}
			versions[version] = true
		}
	}
	parts := strings.Split(key, "/")
	if len(parts) == 3 && versions[parts[0]+"/"+parts[1]] {
		return fmt.Errorf("%q: %s/%s has no resource %s", key, parts[0], parts[1], parts[2])
	}
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q: want api/all, api/ga, api/beta, api/alpha, GROUP/VERSION or GROUP/VERSION/RESOURCE", key)
	}
	return fmt.Errorf("%q: the server has no version %s/%s; it has %s", key, parts[0], parts[1], strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
}
