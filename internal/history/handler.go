package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// A Handler serves the group version to users that the aggregator of the server has authorized, and
// names in headers.
type Handler struct {
	// Store has the objects.
	Store *resource.Store
	// Authorizer decides whether a user may get an object.
	Authorizer authz.Authorizer
}

// headers name the user of a request.
var headers = authn.RequestHeaderOptions{
	UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
	GroupHeaders: []string{"X-Remote-Group"}, ExtraHeadersPrefix: []string{"X-Remote-Extra-"},
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root := "/apis/" + GroupVersion.String()
	if r.URL.Path == root {
		writeJSON(w, http.StatusOK, resources())
		return
	}
	if serveOpenAPI(w, r.URL.Path) {
		return
	}
	below, ok := strings.CutPrefix(r.URL.Path, root+"/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	table, ok := accepts(r.Header.Values("Accept"))
	if !ok {
		writeError(w, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "", groupResource(Revisions), "",
			"only the following media types are accepted: application/json", 0, true))
		return
	}
	answer, err := h.answer(r, strings.Split(below, "/"))
	switch {
	case err != nil:
		writeError(w, err)
	case table != "":
		writeJSON(w, http.StatusOK, tableOf(answer, table, metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))))
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

func groupResource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// resources is the discovery document.
func resources() *metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: GroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: ClusterRevisions, SingularName: "clusterrevision", Kind: "ClusterRevision", Verbs: verbs},
			{Name: Revisions, SingularName: "revision", Namespaced: true, Kind: "Revision", Verbs: verbs},
		},
	}
}

// answer returns a *Revision or a *List.
func (h *Handler) answer(r *http.Request, path []string) (any, error) {
	namespace := ""
	if len(path) > 2 && path[0] == "namespaces" {
		namespace, path = path[1], path[2:]
	}
	of, named := path[0], len(path) == 2
	if len(path) > 2 || of != Revisions && of != ClusterRevisions || of == ClusterRevisions && namespace != "" || of == Revisions && named && namespace == "" {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, true)
	}
	if r.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(groupResource(of), strings.ToLower(r.Method))
	}
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return nil, apierrors.NewMethodNotSupported(groupResource(of), "watch")
	}
	if of == Revisions && namespace == "" {
		return nil, apierrors.NewBadRequest("a list has the revisions of one object: name its namespace")
	}
	user := headers.User(r.Header)
	if user == nil {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	if named {
		return h.get(r.Context(), user, of, namespace, path[1])
	}
	return h.list(r, user, namespace)
}

// wanted names an object.
type wanted struct {
	resource   schema.GroupResource
	name       string
	apiVersion string // in which it is returned; "" for the preferred one
}

// find returns an object that a user may read.
func (h *Handler) find(ctx context.Context, user *authn.User, of wanted, namespace string) (*target, error) {
	d := h.Store.Registry().Load().Resource(of.resource)
	if d == nil || d.Action != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the server has no objects of the resource %q", of.resource))
	}
	if d.Namespaced != (namespace != "") {
		where := map[bool]string{true: Revisions, false: ClusterRevisions}
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the revisions of %s are %s", of.resource, where[d.Namespaced]))
	}
	i := slices.IndexFunc(d.Versions, func(v *resource.Version) bool { // the preferred one is the first
		return d.GroupVersion(v).Group == of.resource.Group && (of.apiVersion == "" || d.APIVersion(v) == of.apiVersion)
	})
	if i < 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s are not served in %q", of.resource, of.apiVersion))
	}
	t := &target{definition: d, version: d.Versions[i], resource: of.resource, namespace: namespace, name: of.name}
	return t, authz.Permit(ctx, h.Authorizer, user, &authz.Attributes{
		Verb: "get", ResourceRequest: true, APIGroup: of.resource.Group, APIVersion: t.version.Name,
		Resource: of.resource.Resource, Namespace: namespace, Name: of.name,
	})
}

// get returns one revision.
func (h *Handler) get(ctx context.Context, user *authn.User, kind, namespace, name string) (*Revision, error) {
	of, object, rev, err := parseName(name)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is not the name of a revision: %v", name, err))
	}
	t, err := h.find(ctx, user, wanted{resource: of, name: object}, namespace)
	if err != nil {
		return nil, err
	}
	p, err := h.read(ctx, t, rev, 1)
	if err != nil {
		return nil, err
	}
	if len(p.items) == 0 || p.items[0].Regarding.ResourceVersion != rev.String() {
		return nil, apierrors.NewNotFound(groupResource(kind), name)
	}
	return &p.items[0], nil
}

// A page is a part of the revisions of an object.
type page struct {
	items []Revision
	next  object.Revision // of the next page; 0 if there is none
}

// pageBytes bounds the size of the objects of a page, approximately.
const pageBytes = 8 << 20

// read returns up to limit revisions from one on; 0 means all, and the newest.
func (h *Handler) read(ctx context.Context, t *target, from object.Revision, limit int) (p page, err error) {
	var pending *resource.Revision // its predecessor has not been read
	bytes := 0
	put := func(before *resource.Revision) {
		if pending != nil {
			p.items = append(p.items, t.revision(pending, before))
		}
	}
	err = h.Store.Revisions(ctx, t.request(), from, func(r resource.Revision) bool {
		put(&r)
		if limit > 0 && len(p.items) == limit || bytes > pageBytes {
			pending, p.next = nil, r.Revision
			return false
		}
		if r.Tree != nil {
			data, _ := object.AppendJSON(nil, r.Tree) // an object
			bytes += len(data)
		}
		pending = &r
		return true
	})
	if err == nil {
		put(nil)
	}
	return p, err
}

// list returns the revisions of the object that the field selector names.
func (h *Handler) list(r *http.Request, user *authn.User, namespace string) (*List, error) {
	q := r.URL.Query()
	of, err := regarding(q.Get("fieldSelector"))
	if err == nil && q.Get("labelSelector") != "" {
		err = errors.New("revisions have no labels")
	}
	limit, from := 0, int64(0)
	if s := q.Get("limit"); err == nil && s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 0 {
			err = fmt.Errorf("limit=%s: want a number", s)
		}
	}
	if s := q.Get("continue"); err == nil && s != "" {
		if from, err = strconv.ParseInt(s, 10, 64); err != nil || from <= 0 {
			err = fmt.Errorf("continue=%s: want the token of a list", s)
		}
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	t, err := h.find(r.Context(), user, of, namespace)
	if err != nil {
		return nil, err
	}
	p, err := h.read(r.Context(), t, object.Revision(from), limit)
	if err != nil {
		return nil, err
	}
	l := &List{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: t.kind() + "List"},
		ListMeta: metav1.ListMeta{ResourceVersion: h.Store.State().Revision().String()},
		Items:    append([]Revision{}, p.items...),
	}
	if p.next > 0 {
		l.Continue = p.next.String()
	}
	return l, nil
}

// regarding returns the object that a field selector names.
func regarding(selector string) (of wanted, err error) {
	s, err := fields.ParseSelector(selector)
	if err != nil {
		return of, err
	}
	bad := false
	for _, r := range s.Requirements() {
		bad = bad || r.Operator != selection.Equals && r.Operator != selection.DoubleEquals
		switch r.Field {
		case "regarding.resource":
			of.resource = schema.ParseGroupResource(r.Value)
		case "regarding.name":
			of.name = r.Value
		case "regarding.apiVersion":
			of.apiVersion = r.Value
		default:
			bad = true
		}
	}
	if bad || of.resource.Resource == "" || of.name == "" {
		return of, errors.New("a list has the revisions of one object: name it by the field selector " +
			"regarding.resource=RESOURCE.GROUP,regarding.name=NAME, such as regarding.resource=deployments.apps,regarding.name=web; " +
			"regarding.apiVersion=GROUP/VERSION selects the version")
	}
	return of, nil
}

func writeJSON(w http.ResponseWriter, code int, o any) {
	data, err := json.Marshal(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(data, '\n')) // fails if the client has gone
}

// writeError writes an error as a Status.
func writeError(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	writeJSON(w, int(s.Code), &s)
}
