package history

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of revisions.
var GroupVersion = schema.GroupVersion{Group: "history.kapok.dev", Version: "v1"}

// The resources, for objects with and without a namespace.
const (
	Revisions        = "revisions"
	ClusterRevisions = "clusterrevisions"
)

// A Revision is a write of an object. Its kind is Revision, or ClusterRevision for objects without
// a namespace.
//
// Its name is RESOURCE.GROUP:NAME:REVISION, without the group for that of pods. Its
// creationTimestamp is the time of the write; it is absent if the object does not tell it.
type Revision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Regarding names the object.
	Regarding Reference `json:"regarding"`
	// Change is what the write was.
	Change Change `json:"change"`
	// Managers are the field managers of the write, by the managed fields that are new. A manager that
	// has only removed fields is not among them.
	Managers []string `json:"managers,omitempty"`
	// Fields are the fields that an update has changed, such as spec.replicas. A list is one field.
	Fields []string `json:"fields,omitempty"`
	// Object is the object as the write has left it. It is absent if the object is deleted, or
	// cannot be read.
	Object map[string]any `json:"object,omitempty"`
	// Message says why the object cannot be read.
	Message string `json:"message,omitempty"`
}

// A List has the revisions of an object, newest first.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Revision `json:"items"`
}

// A Reference names an object. Field selectors of lists require regarding.resource, which is
// RESOURCE.GROUP, and regarding.name; regarding.apiVersion selects the version of the objects.
type Reference struct {
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
	Resource        string `json:"resource"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion"`
}

// A Change is what a write has done.
type Change string

// Earliest is the oldest revision that is known of an object, if it is not known what it changed.
const (
	Created  Change = "Created"
	Updated  Change = "Updated"
	Deleted  Change = "Deleted"
	Earliest Change = "Earliest"
)

// target is an object whose revisions are read.
type target struct {
	definition *resource.Definition
	version    *resource.Version
	resource   schema.GroupResource // as the client has named it: a kind may be in several groups
	namespace  string
	name       string
}

func (t *target) request() *resource.Request {
	return &resource.Request{Definition: t.definition, Version: t.version, Namespace: t.namespace, Name: t.name, Warn: func(string) {}}
}

// kind returns the kind of revisions of the object.
func (t *target) kind() string {
	if t.namespace == "" {
		return "ClusterRevision"
	}
	return "Revision"
}

// nameOf returns the name of a revision.
func nameOf(resource schema.GroupResource, name string, rev object.Revision) string {
	return fmt.Sprintf("%s:%s:%s", resource, name, rev)
}

// parseName is the inverse of nameOf. Names of objects can have colons.
func parseName(s string) (of schema.GroupResource, name string, rev object.Revision, err error) {
	bad := errors.New("want RESOURCE.GROUP:NAME:REVISION, such as deployments.apps:web:1207")
	first, last := strings.IndexByte(s, ':'), strings.LastIndexByte(s, ':')
	if first < 1 || last < first+2 {
		return of, "", 0, bad
	}
	n, err := strconv.ParseInt(s[last+1:], 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != s[last+1:] {
		return of, "", 0, bad
	}
	return schema.ParseGroupResource(s[:first]), s[first+1 : last], object.Revision(n), nil
}

// revision describes a write. before is the one that it follows, nil if that is not known.
func (t *target) revision(w, before *resource.Revision) Revision {
	r := Revision{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: t.kind()},
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(t.resource, t.name, w.Revision), Namespace: t.namespace},
		Regarding: Reference{
			APIVersion: t.definition.APIVersion(t.version), Kind: t.definition.Kind, Resource: t.resource.String(),
			Namespace: t.namespace, Name: t.name, ResourceVersion: w.Revision.String(),
		},
		Change: Updated, Object: w.Tree,
	}
	if w.Err != nil {
		r.Message = w.Err.Error()
	}
	known := before != nil && before.Tree != nil
	switch {
	case w.Deleted:
		r.Change = Deleted
	case w.Created:
		r.Change = Created
	case !known:
		r.Change = Earliest
	}
	uid := w.Tree
	if w.Deleted && known {
		uid = before.Tree
	}
	r.Regarding.UID, _, _ = unstructured.NestedString(uid, "metadata", "uid")
	if w.Tree == nil {
		return r
	}
	var was []metav1.ManagedFieldsEntry
	switch r.Change {
	case Updated:
		was = managedFields(before.Tree)
		r.Fields = Changed(before.Tree, w.Tree)
	case Earliest:
		return r
	}
	managers, at := Managers(was, managedFields(w.Tree))
	r.Managers, r.CreationTimestamp = managers, metav1.NewTime(at)
	return r
}

func managedFields(tree resource.Tree) []metav1.ManagedFieldsEntry {
	return (&unstructured.Unstructured{Object: tree}).GetManagedFields()
}
