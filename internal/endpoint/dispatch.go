package endpoint

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dispatch calls the handler of the path of an authorized request.
func (c *call) dispatch() {
	switch {
	case c.remote != nil:
		c.delegate(c.remote)
		return
	case !c.info.IsResource:
		c.dispatchPath()
		return
	}
	err := resource.ErrReplaced
	for errors.Is(err, resource.ErrReplaced) { // a write uses the definition that is current when it commits
		err = c.dispatchResource()
	}
	if err != nil {
		c.fail(err)
	}
}

// dispatchResource looks up the definition of the resource and serves the request with it. If the
// definition is replaced meanwhile, it returns resource.ErrReplaced and has sent nothing.
func (c *call) dispatchResource() error {
	set := c.h.store.Registry().Load()
	c.definition, c.version = set.Resource(schema.GroupResource{Group: c.info.Group, Resource: c.info.Resource}), nil
	if c.definition != nil {
		c.version = c.definition.Version(schema.GroupVersion{Group: c.info.Group, Version: c.info.Version})
	}
	switch {
	case c.version != nil && c.definition.Custom:
		return c.dispatchCustom()
	case !c.routed(set):
		c.notFound()
		return nil
	case c.version == nil:
		return noSuchPath()
	}
	return c.dispatchBuiltIn()
}

// routed reports whether a path is below the core group or a group with served built-in kinds.
// Unknown resources there get a Status, elsewhere plain text.
func (c *call) routed(set *resource.Set) bool {
	below, grouped := strings.CutPrefix(c.info.Path, "/apis/")
	if !grouped {
		return strings.HasPrefix(c.info.Path, "/api/")
	}
	group, _, _ := strings.Cut(below, "/")
	return slices.ContainsFunc(set.All(), func(d *resource.Definition) bool { return !d.Custom && len(d.Versions) > 0 && d.In(group) })
}

// dispatchPath serves paths that are not resources.
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
	case strings.HasPrefix(path, "/debug/") && c.h.opts.Debug != nil:
		c.h.opts.Debug.ServeHTTP(&c.w, c.r)
	case strings.HasPrefix(path, "/kapok/"):
		c.administer()
	default:
		if !c.document() && !c.health() && !c.zpage() {
			c.notFound()
		}
	}
}

// dispatchCustom serves a custom resource, as apiextensions-apiserver does.
func (c *call) dispatchCustom() error {
	namespaced, collection := c.info.Namespace != "", c.info.Verb == "list" || c.info.Verb == "watch"
	if c.definition.Namespaced != namespaced && !(c.definition.Namespaced && collection) {
		c.notFound()
		return nil
	}
	c.warn(c.version.Warning)
	c.auditDeprecated()
	switch sub := c.info.Subresource; {
	case sub == "":
		return c.verb()
	case c.scaling() || c.version.Subresource(sub) != nil:
		switch c.info.Verb {
		case "get", "update", "patch":
			return c.verb()
		}
		return c.noSuchVerb()
	}
	return apierrors.NewNotFound(c.definition.GroupResource(), c.info.Name)
}

// dispatchBuiltIn serves a built-in resource. In Kubernetes, a router precedes these, with its own
// messages for unknown paths, methods and media types.
func (c *call) dispatchBuiltIn() error {
	if connection := c.connection(); connection != nil {
		return c.connect(connection)
	}
	methods := c.methods()
	if methods == nil {
		return noSuchPath()
	}
	if !slices.Contains(methods, c.r.Method) {
		return methodNotAllowed()
	}
	if c.r.Method == http.MethodPatch && !c.patchRoutable() {
		return unrouted(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	produces := mediaTypes[:]
	if c.r.Method == http.MethodGet && (!c.info.NameInPath || c.info.WatchPrefix) {
		produces = append(slices.Clone(produces), mediaStreams[:]...)
	}
	if err := routable(c.r, produces); err != nil {
		return err
	}
	if c.info.Subresource != "" && !c.info.NameInPath {
		// The request was authorized for the verb of the collection, and the user may have a right
		// to the subresource of objects only.
		return nameRequired()
	}
	c.warn(c.version.Warning)
	c.auditDeprecated()
	return c.verb()
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

// methods returns the methods that the path of a built-in resource allows; nil if the path does not
// exist.
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

// deletesCollections reports whether all objects of a kind can be deleted with one request. As in
// Kubernetes, namespaces cannot: everything in them would be deleted, too.
func deletesCollections(d *resource.Definition) bool {
	return d.Group != "" || d.Plural != "namespaces"
}

// verb serves a request for a resource. If it returns an error, it has sent nothing.
func (c *call) verb() error {
	if err := c.readLease(); err != nil {
		return err
	}
	switch c.info.Verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	case "deletecollection":
		return c.deleteCollection()
	}
	return c.noSuchVerb()
}

func (c *call) noSuchVerb() error {
	return apierrors.NewMethodNotSupported(c.definition.GroupResource(), c.info.Verb)
}
