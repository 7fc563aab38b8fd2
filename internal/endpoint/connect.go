package endpoint

import (
	"net/http"
	"slices"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/connect"
	"github.com/kapok-dev/kapok/internal/forward"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// connection returns the connection that the path of a built-in resource names; nil if it names
// none.
func (c *call) connection() *resource.Connection {
	i := &c.info
	connection := c.version.Connection(i.Subresource)
	if connection == nil || i.WatchPrefix || i.Rest && !connection.Below || c.definition.Namespaced != (i.Namespace != "") {
		return nil
	}
	return connection
}

// connect passes a request on to the kubelet of a pod, a pod, a service or a node. As in
// Kubernetes, the timeout parameter has no effect on it. If it returns an error, it has sent
// nothing.
func (c *call) connect(to *resource.Connection) error {
	if err := c.permitConnection(to); err != nil {
		return err
	}
	defer c.endWithWatches()()
	target, err := c.locate(to)
	if err != nil {
		return err
	}
	c.pass.Leave() // the work is that of another program
	c.w.proxied, c.w.patient = true, true
	defer c.h.metrics.watching(c)()
	if to.Name == "log" {
		return c.h.opts.Connector.Log(&c.w, c.r, target)
	}
	c.h.opts.Connector.Serve(&c.w, c.r, target, c.fail)
	return nil
}

// permitConnection checks a request for a connection before it is admitted.
func (c *call) permitConnection(to *resource.Connection) error {
	switch {
	case !slices.Contains(to.Methods, c.r.Method):
		return methodNotAllowed()
	case !c.info.NameInPath:
		// The request was authorized for the verb of the collection, and maybe for the name in a
		// selector.
		return nameRequired()
	case c.h.opts.Connector == nil:
		return apierrors.NewServiceUnavailable("this server does not connect to nodes")
	case to.Name == "log":
		if forward.IsUpgrade(c.r) {
			return apierrors.NewBadRequest("a log cannot be read over an upgraded connection: send the request without the header Upgrade")
		}
		return routable(c.r, append([]string{"text/plain"}, mediaTypes[:]...))
	case to.Upgrades && c.info.Verb != "create" && !c.h.opts.UpgradesByGet:
		// A WebSocket is opened by GET, but permission to read must not be enough to run a program.
		return c.permitCreate()
	}
	return nil
}

// permitCreate checks that the user is permitted to create the subresource of the request.
func (c *call) permitCreate() error {
	attributes := c.attributes()
	attributes.Verb = "create"
	return authz.Check(c.r.Context(), c.h.opts.Authorizer, attributes)
}

// locate decodes and admits the parameters of a request, and returns where it goes.
func (c *call) locate(to *resource.Connection) (*connect.Target, error) {
	query := c.r.URL.Query()
	if to.Admitted && len(query["dryRun"]) > 0 {
		return nil, apierrors.NewBadRequest("dryRun is not supported")
	}
	options, err := to.Decode(query, c.info.Below)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	request := c.request()
	if c.record != nil {
		request.Annotate = c.record.Annotate
	}
	options, o, err := c.h.store.Connect(c.r.Context(), request, options)
	if err != nil {
		return nil, err
	}
	return c.h.opts.Connector.Locate(request, o, options)
}

// connectionVerbs returns the verbs of a connection, as discovery lists them.
func connectionVerbs(to *resource.Connection) (verbs []string) {
	for _, method := range to.Methods {
		if method != http.MethodHead {
			if verb := verbOf(method); verb != "" {
				verbs = append(verbs, verb)
			}
		}
	}
	slices.Sort(verbs)
	return verbs
}
