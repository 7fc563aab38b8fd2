package resource

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// metadata returns the metadata of a tree, and makes it where there is none.
func metadata(obj Tree) Tree {
	m, ok := obj["metadata"].(map[string]any)
	if !ok {
		m = Tree{}
		obj["metadata"] = m
	}
	return m
}

func metaString(obj Tree, key string) string {
	m, _ := obj["metadata"].(map[string]any)
	s, _ := m[key].(string)
	return s
}

func metaInt(obj Tree, key string) (int64, bool) {
	m, _ := obj["metadata"].(map[string]any)
	n, ok := m[key].(int64)
	return n, ok
}

// accessor is the metadata of a tree as the libraries want to see it.
func accessor(obj Tree) metav1.Object { return &unstructured.Unstructured{Object: obj} }

// A judged is the metadata of a tree for its validation, which does not look at the times and the fields of managedFields, and
// need not have them decoded.
type judged struct{ metav1.Object }

func (j judged) GetManagedFields() []metav1.ManagedFieldsEntry {
	m, _ := j.Object.(*unstructured.Unstructured).Object["metadata"].(map[string]any)
	list, _ := m["managedFields"].([]any)
	entries := make([]metav1.ManagedFieldsEntry, len(list))
	for i, item := range list {
		e, _ := item.(map[string]any)
		text := func(key string) string {
			s, _ := e[key].(string)
			return s
		}
		entries[i] = metav1.ManagedFieldsEntry{
			Manager: text("manager"), Operation: metav1.ManagedFieldsOperationType(text("operation")),
			APIVersion: text("apiVersion"), FieldsType: text("fieldsType"), Subresource: text("subresource"),
		}
	}
	return entries
}

// wipeSystemFields drops what a client may not say of a new object.
func wipeSystemFields(obj Tree) {
	m := metadata(obj)
	for _, key := range []string{"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		delete(m, key)
	}
}

// fillSystemFields makes an object a new one.
func fillSystemFields(obj Tree, at time.Time) {
	m := metadata(obj)
	m["creationTimestamp"] = timestamp(at)
	m["uid"] = string(uuid.NewUUID())
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ensureNamespace puts the namespace of the request into the object, or refuses
// an object that says otherwise.
func ensureNamespace(r *Request, obj Tree) error {
	namespace := r.Namespace
	if !r.Definition.Namespaced {
		namespace = ""
	}
	switch metaString(obj, "namespace") {
	case namespace:
		return nil
	case "":
		metadata(obj)["namespace"] = namespace
		return nil
	}
	if namespace == "" {
		delete(metadata(obj), "namespace")
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// ensureName refuses an object whose name is not that of the request.
func ensureName(r *Request, obj Tree) error {
	name := metaString(obj, "name")
	if name == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", r.Name))
	}
	if name != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, r.Name))
	}
	if ns := metaString(obj, "namespace"); ns != "" && r.Namespace != "" && ns != r.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", ns, r.Namespace))
	}
	return nil
}

// keepSystemFields puts back what no update may change, after the hooks.
func keepSystemFields(obj, old Tree) {
	m, was := metadata(obj), metadata(old)
	if uid, _ := m["uid"].(string); uid == "" {
		m["uid"] = was["uid"]
	}
	if created, ok := was["creationTimestamp"]; ok {
		m["creationTimestamp"] = created
	}
	if deleted, ok := was["deletionTimestamp"]; ok {
		m["deletionTimestamp"] = deleted
	}
	if grace, ok := was["deletionGracePeriodSeconds"]; ok {
		if _, has := m["deletionGracePeriodSeconds"]; !has {
			m["deletionGracePeriodSeconds"] = grace
		}
	}
}

// setGeneration sets metadata.generation; 0 removes it.
func setGeneration(obj Tree, n int64) {
	if n == 0 {
		delete(metadata(obj), "generation")
		return
	}
	metadata(obj)["generation"] = n
}

// requestRevision is the resourceVersion that a client has put into an object.
func requestRevision(obj Tree) (object.Revision, error) {
	s := metaString(obj, "resourceVersion")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, err
	}
	return object.Revision(n), nil
}

// The words in which Kubernetes warns of repeated owner references, before and
// after admission.
const (
	repeatedOwners      = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	repeatedOwnersAfter = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
)

// dedupOwners drops repeated owner references and warns of them.
func dedupOwners(r *Request, obj Tree, warning string) {
	m := metadata(obj)
	refs, ok := m["ownerReferences"].([]any)
	if !ok || len(refs) < 2 {
		return
	}
	var unique []any
	var repeated []string
	for _, ref := range refs {
		if slices.ContainsFunc(unique, func(has any) bool { return object.Equal(has, ref) }) {
			owner, _ := ref.(map[string]any)
			uid, _ := owner["uid"].(string)
			repeated = append(repeated, uid)
			continue
		}
		unique = append(unique, ref)
	}
	if len(repeated) > 0 {
		m["ownerReferences"] = unique
		r.Warn(fmt.Sprintf(warning, strings.Join(repeated, ", ")))
	}
}
