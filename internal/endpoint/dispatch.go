package endpoint

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dispatch hands an authorized request to what serves its path.
func (c *call) dispatch() {
	if remote := c.h.opts.Aggregated.Load().Find(c.r.URL.Path); remote != nil {
		c.delegate(remote)
		return
	}
	if !c.info.IsResource {
		c.dispatchPath()
		return
	}
	set := c.h.store.Registry().Load()
	c.definition = set.Resource(schema.GroupResource{Group: c.info.Group, Resource: c.info.Resource})
	if c.definition != nil {
		c.version = c.definition.Version(schema.GroupVersion{Group: c.info.Group, Version: c.info.Version})
	}
	switch {
	case c.version != nil && c.definition.Custom:
		c.dispatchCustom()
	case !c.routed(set):
		c.notFound()
	case c.version == nil:
		c.fail(noSuchPath())
	default:
		c.dispatchBuiltIn()
	}
}

// routed says whether a path is below the core group or a group of built-in
// kinds. What is not found there gets a Status, elsewhere plain text.
func (c *call) routed(set *resource.Set) bool {
	below, grouped := strings.CutPrefix(c.info.Path, "/apis/")
	if !grouped {
		return strings.HasPrefix(c.info.Path, "/api/")
	}
	group, _, _ := strings.Cut(below, "/")
	return slices.ContainsFunc(set.All(), func(d *resource.Definition) bool { return !d.Custom && d.In(group) })
}

// dispatchPath serves what is no resource.
func (c *call) dispatchPath() {
	path := c.info.Path
	switch {
	case path == "/" || path == "/index.html":
		c.index()
	case path == "/version" || path == "/version/":
		c.answerVersion()
	case strings.HasPrefix(path, "/version/"):
		c.fail(noSuchPath())
	case path == "/metrics":
		c.h.metrics.handler.ServeHTTP(&c.w, c.r)
	case path == "/api" || path == "/api/" || path == "/apis" || path == "/apis/":
		c.discoverRoot()
	case strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/"):
		c.discover()
	case strings.HasPrefix(path, "/openapi/") && c.h.opts.OpenAPI != nil:
		c.h.opts.OpenAPI.ServeHTTP(&c.w, c.r)
	case strings.HasPrefix(path, "/kapok/"):
		c.administer()
	default:
		if !c.document() && !c.health() {
			c.notFound()
		}
	}
}

// dispatchCustom serves a custom resource, as apiextensions-apiserver does.
func (c *call) dispatchCustom() {
	namespaced, collection := c.info.Namespace != "", c.info.Verb == "list" || c.info.Verb == "watch"
	if c.definition.Namespaced != namespaced && !(c.definition.Namespaced && collection) {
		c.notFound()
		return
	}
	c.warn(c.version.Warning)
	c.auditDeprecated()
	gr := c.definition.GroupResource()
	switch sub := c.info.Subresource; {
	case sub == "":
		if !c.verb() {
			c.fail(apierrors.NewMethodNotSupported(gr, c.info.Verb))
		}
	case c.scaling() || c.version.Subresource(sub) != nil:
		switch c.info.Verb {
		case "get", "update", "patch":
			c.verb()
		default:
			c.fail(apierrors.NewMethodNotSupported(gr, c.info.Verb))
		}
	default:
		c.fail(apierrors.NewNotFound(gr, c.info.Name))
	}
}

// dispatchBuiltIn serves a built-in resource. In Kubernetes a router stands in
// front of these, which has its own words for paths, methods and media types
// that there are not.
func (c *call) dispatchBuiltIn() {
	methods := c.methods()
	if methods == nil {
		c.fail(c.absent())
		return
	}
	if !slices.Contains(methods, c.r.Method) {
		c.fail(methodNotAllowed())
		return
	}
	if c.r.Method == http.MethodPatch && !c.patchRoutable() {
		c.fail(unrouted(http.StatusUnsupportedMediaType, "415: Unsupported Media Type"))
		return
	}
	produces := mediaTypes[:]
	if c.r.Method == http.MethodGet && (!c.info.NameInPath || c.info.WatchPrefix) {
		produces = append(slices.Clone(produces), mediaStreams[:]...)
	}
	if err := routable(c.r, produces); err != nil {
		c.fail(err)
		return
	}
	if c.info.Subresource != "" && !c.info.NameInPath {
		// The verb is one of the collection, but who asks may only have a right to what is below its objects.
		c.fail(nameRequired())
		return
	}
	c.warn(c.version.Warning)
	c.auditDeprecated()
	c.verb()
}

// absent is the error for a path that a built-in resource does not have. Where Kubernetes has it, the reason is told.
func (c *call) absent() error {
	why, d := c.definition.Absent[c.info.Subresource], c.definition
	if why == "" || d.Namespaced != (c.info.Namespace != "") {
		return noSuchPath()
	}
	if o, _ := c.h.store.State().Get(d.Key(c.info.Namespace, c.info.Name)); o == nil {
		return apierrors.NewNotFound(d.GroupResource(), c.info.Name)
	}
	return &plainError{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: "kapok: " + why}
}

func (c *call) patchRoutable() bool {
	known := c.patchTypes()
	for clause := range strings.SplitSeq(c.r.Header.Get("Content-Type"), ",") {
		mediaType, _, _ := strings.Cut(clause, ";")
		if slices.Contains(known, strings.TrimSpace(mediaType)) {
			return true
		}
	}
	return false
}

// methods are those that the path of a built-in resource takes; nil if there is
// no such path.
func (c *call) methods() []string {
	i, d := &c.info, c.definition
	isNamespace := d.Group == "" && d.Plural == "namespaces"
	if i.Rest || i.Verb == "proxy" {
		return nil
	}
	if !d.Namespaced && i.Namespace != "" && !(isNamespace && i.NameInPath && i.Name == i.Namespace) {
		return nil
	}
	if d.Namespaced && i.Namespace == "" {
		if i.NameInPath || i.Subresource != "" || d.Action != nil {
			return nil
		}
		return []string{http.MethodGet} // of all namespaces
	}
	switch {
	case i.WatchPrefix && i.Subresource != "":
		return nil
	case i.WatchPrefix:
		return []string{http.MethodGet}
	case i.Subresource != "":
		return c.subresourceMethods()
	case d.Action != nil && i.NameInPath:
		return nil
	case d.Action != nil:
		return []string{http.MethodPost}
	case i.NameInPath:
		return []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete}
	case !deletesCollections(d):
		return []string{http.MethodGet, http.MethodPost}
	}
	return []string{http.MethodGet, http.MethodPost, http.MethodDelete}
}

func (c *call) subresourceMethods() []string {
	if c.scaling() {
		return []string{http.MethodGet, http.MethodPut, http.MethodPatch}
	}
	sub := c.version.Subresource(c.info.Subresource)
	switch {
	case sub == nil:
		return nil
	case sub.UpdateOnly:
		return []string{http.MethodPut}
	case sub.Action != nil:
		return []string{http.MethodPost}
	}
	return []string{http.MethodGet, http.MethodPut, http.MethodPatch}
}

// deletesCollections says whether all objects of a kind can be deleted at once.
// Namespaces cannot: too much would go with them.
func deletesCollections(d *resource.Definition) bool {
	return d.Group != "" || d.Plural != "namespaces"
}

// verb carries out a request for a resource, and answers it. It returns false for
// verbs that no resource has.
func (c *call) verb() bool {
	var err error
	switch c.info.Verb {
	case "get":
		err = c.get()
	case "list":
		err = c.list()
	case "watch":
		err = c.watch()
	case "create":
		err = c.create()
	case "update":
		err = c.update()
	case "patch":
		err = c.patch()
	case "delete":
		err = c.delete()
	case "deletecollection":
		err = c.deleteCollection()
	default:
		return false
	}
	switch {
	case errors.Is(err, resource.ErrReplaced):
		c.dispatch() // by the definition of now
	case err != nil:
		c.fail(err)
	}
	return true
}
