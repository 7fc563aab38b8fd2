package openapi

import (
	"net/http"
	"slices"
	"strings"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// operation is a method of a path, independent of the version of OpenAPI.
type operation struct {
	path, method   string
	id, tag, about string
	action         string                   // in Kubernetes' terms: get, list, post, put, ...
	kind           *metav1.GroupVersionKind // of the object
	parameters     []parameter
	body           *body
	consumes       []string
	produces       []string
	answers        []int  // status codes
	answer         string // definition of the response
}

type body struct {
	definition string
	required   bool
}

// plainText takes the place of a definition if the response is not JSON. Names of definitions have
// no spaces.
const plainText = "plain text"

const (
	typeJSON     = "application/json"
	typeYAML     = "application/yaml"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// mediaTypes of custom resources lack protobuf.
type mediaTypes struct {
	object, list, patch, body []string
}

func mediaTypesOf(r *Resource) mediaTypes {
	if r.Custom != nil {
		types := []string{typeJSON, typeYAML}
		return mediaTypes{
			object: types,
			list:   types,
			body:   types,
			patch:  []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"},
		}
	}
	types := []string{typeJSON, typeYAML, typeProtobuf}
	return mediaTypes{
		object: types,
		list:   append(slices.Clone(types), typeJSON+";stream=watch", typeProtobuf+";stream=watch"),
		body:   []string{"*/*"},
		patch: []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
			"application/apply-patch+yaml"},
	}
}

// describer returns the operations of one resource.
type describer struct {
	*Resource
	*options
	types      mediaTypes
	operations []operation
}

// operations returns all operations of the resource.
func (r *Resource) operations() []operation {
	d := &describer{Resource: r, options: commonOptions(), types: mediaTypesOf(r)}
	collection, item := d.paths()
	d.collection(collection)
	d.item(item)
	for _, sub := range r.Subresources {
		if strings.HasSuffix(sub.Kind.Kind, "Options") {
			d.connection(item+"/"+sub.Name, sub)
		} else {
			d.subresource(item+"/"+sub.Name, sub)
		}
	}
	return d.operations
}

func (d *describer) paths() (collection, item string) {
	collection = "/" + d.root() + "/"
	if d.Namespaced {
		collection += "namespaces/{namespace}/"
	}
	collection += d.Plural
	return collection, collection + "/{name}"
}

func (d *describer) can(verb string) bool { return slices.Contains(d.Verbs, verb) }

// scope is the part of an identifier for the scope of the object.
func (d *describer) scope() string {
	if d.Namespaced {
		return "Namespaced"
	}
	return ""
}

// place returns the parameters of the path.
func (d *describer) place(name ...parameter) []parameter {
	if d.Namespaced {
		return append(name, namespaceParameter)
	}
	return name
}

// add completes the operation with the attributes that all operations share.
func (d *describer) add(verb, rest string, kind schema.GroupVersionKind, o operation, parameters ...[]parameter) {
	o.id = operationID(verb, d.Group, d.Version, rest)
	o.tag = tag(d.Group, d.Version)
	o.kind = &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	o.parameters = slices.Concat(parameters...)
	if o.action != "connect" {
		o.parameters = append(o.parameters, prettyParameter)
	}
	if o.consumes == nil {
		o.consumes = d.types.body
	}
	if o.produces == nil {
		o.produces = d.types.object
	}
	slices.SortFunc(o.parameters, compareParameters)
	// Options of a list and of a deletion overlap.
	o.parameters = slices.CompactFunc(o.parameters, func(a, b parameter) bool { return a.name == b.name && a.in == b.in })
	d.operations = append(d.operations, o)
}

func (d *describer) collection(path string) {
	object := d.definition(d.Kind)
	if d.can("list") {
		d.listing(path, d.scope()+d.Kind, d.place())
		if d.Namespaced {
			d.listing("/"+d.root()+"/"+d.Plural, d.Kind+"ForAllNamespaces", nil)
		}
	}
	if d.can("create") {
		d.add("create", d.scope()+d.Kind, d.kind(), operation{
			path: path, method: http.MethodPost, action: "post", about: "create " + withArticle(d.Kind),
			body: &body{object, true}, answer: object, answers: []int{200, 201, 202},
		}, d.place(), d.create)
	}
	if d.can("deletecollection") {
		o := operation{
			path: path, method: http.MethodDelete, action: "deletecollection", about: "delete collection of " + d.Kind,
			answer: metaV1 + "Status", answers: []int{200},
		}
		parameters := d.list
		if d.Custom == nil {
			o.body = &body{metaV1 + "DeleteOptions", false}
			parameters = append(without(d.list, "watch", "allowWatchBookmarks"), d.delete...)
		}
		d.add("delete", "Collection"+d.scope()+d.Kind, d.kind(), o, d.place(), parameters)
	}
}

// listing describes list and, for built-in kinds, the old way to watch.
func (d *describer) listing(path, id string, place []parameter) {
	about := "list objects of kind "
	if d.Custom == nil && d.can("watch") {
		about = "list or watch objects of kind "
	}
	d.add("list", id, d.kind(), operation{
		path: path, method: http.MethodGet, action: "list", about: about + d.Kind,
		produces: d.types.list, answer: d.definition(d.ListKind), answers: []int{200},
	}, place, d.list)

	if d.Custom == nil && d.can("watch") {
		id, all := strings.CutSuffix(id, "ForAllNamespaces")
		id += "List"
		if all {
			id += "ForAllNamespaces"
		}
		d.add("watch", id, d.kind(), operation{
			path: d.watchPath(path), method: http.MethodGet, action: "watchlist",
			about:    "watch individual changes to a list of " + d.Kind + ". deprecated: use the 'watch' parameter with a list operation instead.",
			produces: d.types.list, answer: metaV1 + "WatchEvent", answers: []int{200},
		}, place, d.list)
	}
}

// watchPath is the path of the old way to watch.
func (d *describer) watchPath(path string) string {
	return "/" + d.root() + "/watch" + strings.TrimPrefix(path, "/"+d.root())
}

func (d *describer) item(path string) {
	place := d.place(nameParameter(d.Kind))
	object := d.definition(d.Kind)
	d.readAndWrite(path, "", d.kind(), d.Verbs, object, place)
	if d.can("delete") {
		answer := metaV1 + "Status"
		if d.DeleteAnswersObject {
			answer = object
		}
		d.add("delete", d.scope()+d.Kind, d.kind(), operation{
			path: path, method: http.MethodDelete, action: "delete", about: "delete " + withArticle(d.Kind),
			body: &body{metaV1 + "DeleteOptions", false}, answer: answer, answers: []int{200, 202},
		}, place, d.delete)
	}
	if d.Custom == nil && d.can("watch") {
		d.add("watch", d.scope()+d.Kind, d.kind(), operation{
			path: d.watchPath(path), method: http.MethodGet, action: "watch",
			about: "watch changes to an object of kind " + d.Kind + ". deprecated: use the 'watch' parameter with a list operation " +
				"instead, filtered to a single item with the 'fieldSelector' parameter.",
			produces: d.types.list, answer: metaV1 + "WatchEvent", answers: []int{200},
		}, place, d.list)
	}
}

// readAndWrite describes get, update and patch of an object, or of a subresource of it.
func (d *describer) readAndWrite(path, sub string, kind schema.GroupVersionKind, verbs []string, object string, place []parameter) {
	of := ""
	if sub != "" {
		of = sub + " of "
	}
	id := d.scope() + d.Kind + title(sub)
	if slices.Contains(verbs, "get") {
		o := operation{
			path: path, method: http.MethodGet, action: "get", about: "read " + of + "the specified " + d.Kind,
			answer: object, answers: []int{200},
		}
		var parameters []parameter
		switch {
		case d.Custom != nil:
			parameters = d.get
		case d.Group == "" && d.Plural == "pods" && sub == "log":
			parameters = optionParameters("io.k8s.api.core.v1.PodLogOptions")
			o.produces = append([]string{"text/plain"}, d.types.object...)
			o.answer = plainText
		}
		d.add("read", id, kind, o, place, parameters)
	}
	if slices.Contains(verbs, "update") {
		d.add("replace", id, kind, operation{
			path: path, method: http.MethodPut, action: "put", about: "replace " + of + "the specified " + d.Kind,
			body: &body{object, true}, answer: object, answers: []int{200, 201},
		}, place, d.update)
	}
	if slices.Contains(verbs, "patch") {
		answers := []int{200, 201} // apply creates
		if d.Custom != nil {
			answers = []int{200}
		}
		d.add("patch", id, kind, operation{
			path: path, method: http.MethodPatch, action: "patch", about: "partially update " + of + "the specified " + d.Kind,
			consumes: d.types.patch, body: &body{metaV1 + "Patch", true}, answer: object, answers: answers,
		}, place, d.patch)
	}
}

func (d *describer) subresource(path string, sub Subresource) {
	var object string
	kind := sub.Kind
	if d.Custom != nil {
		// Operations of a custom kind have its kind, even if the schema is that of a scale.
		object = d.definition(d.Kind)
		if sub.Kind.Kind != d.Kind {
			object = kindsopenapi.Builtin().NameOf(sub.Kind)
		}
		kind = d.kind()
	} else {
		object = kindsopenapi.Builtin().NameOf(sub.Kind)
	}
	place := d.place(nameParameter(kind.Kind))
	d.readAndWrite(path, sub.Name, kind, sub.Verbs, object, place)
	if slices.Contains(sub.Verbs, "create") {
		d.add("create", d.scope()+d.Kind+title(sub.Name), kind, operation{
			path: path, method: http.MethodPost, action: "post", about: "create " + sub.Name + " of " + withArticle(d.Kind),
			body: &body{object, true}, answer: object, answers: []int{200, 201, 202},
		}, place, d.create)
	}
}

// connection describes a subresource that connects to the object, as exec and proxy do.
func (d *describer) connection(path string, sub Subresource) {
	methods := []string{http.MethodGet, http.MethodPost}
	if sub.Name == "proxy" {
		methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
	}
	place := d.place(nameParameter(sub.Kind.Kind))
	parameters := optionParameters(kindsopenapi.Builtin().NameOf(sub.Kind))
	connect := func(path, suffix string, place []parameter) {
		for _, method := range methods {
			d.add("connect", title(method)+d.scope()+d.Kind+title(sub.Name)+suffix, sub.Kind, operation{
				path: path, method: method, action: "connect", about: "connect " + method + " requests to " + sub.Name + " of " + d.Kind,
				consumes: []string{"*/*"}, produces: []string{"*/*"}, answer: plainText, answers: []int{200},
			}, place, parameters)
		}
	}
	connect(path, "", place)
	if sub.Name == "proxy" {
		connect(path+"/{path}", "WithPath", append(slices.Clone(place), pathParameter))
	}
}
