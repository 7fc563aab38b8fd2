package aggregate

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/object"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// A Set has the group versions that other servers serve at one time. It is immutable. A nil Set is
// empty.
type Set struct {
	remotes map[schema.GroupVersion]*Remote
}

// A Remote is a group version that another server serves. It is immutable.
type Remote struct {
	schema.GroupVersion
	// GroupPriority and VersionPriority give its position in discovery documents, higher ones
	// first.
	GroupPriority, VersionPriority int
	// Discovery is its discovery document: stale, and empty, if the server did not answer.
	Discovery *apidiscoveryv2.APIVersionDiscovery

	available bool
	backend   *backend
	documents *Documents // nil before the first answer
}

// Find returns the Remote that serves a path: all paths below its group version, and the path of
// its OpenAPI v3 document. It returns nil if there is none.
func (s *Set) Find(path string) *Remote {
	if s == nil {
		return nil
	}
	if rest, ok := strings.CutPrefix(path, openAPIv3+"apis/"); ok {
		group, version, _ := strings.Cut(rest, "/")
		m := s.remotes[schema.GroupVersion{Group: group, Version: version}]
		if m == nil || group == "" || m.documents == nil || m.documents.V3[m.GroupVersion] == "" {
			return nil
		}
		return m
	}
	if rest, ok := strings.CutPrefix(path, "/api"); ok && (rest == "" || rest[0] == '/') {
		return s.remotes[schema.GroupVersion{Version: "v1"}] // the legacy group has one APIService
	}
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return nil
	}
	group, rest, ok := strings.Cut(rest, "/")
	if !ok || group == "" {
		return nil
	}
	version, _, _ := strings.Cut(rest, "/")
	return s.remotes[schema.GroupVersion{Group: group, Version: version}]
}

// All returns the Remotes by group version; the caller must not change the map.
func (s *Set) All() map[schema.GroupVersion]*Remote {
	if s == nil {
		return nil
	}
	return s.remotes
}

// A registration is an APIService that names a service.
type registration struct {
	object *object.Object
	apiregistrationv1.APIService
}

func (r *registration) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: r.Spec.Group, Version: r.Spec.Version}
}

func (r *registration) available() bool {
	for _, c := range r.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue
		}
	}
	return false
}

// port returns the port of the service. Objects that were not written through this server can lack
// the default.
func (r *registration) port() int32 {
	if p := r.Spec.Service.Port; p != nil {
		return *p
	}
	return 443
}

// discoveryPath returns the path of a group version's discovery document.
func discoveryPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}
