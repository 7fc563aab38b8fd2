package resource

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// metadata returns the metadata of a tree, and adds it if it is missing.
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

// accessor returns the metadata of a tree as the interface of the libraries.
func accessor(obj Tree) metav1.Object { return &unstructured.Unstructured{Object: obj} }

// validatedMeta is the metadata of a tree for validation, which reads neither the times nor the
// fields of managedFields. They are not decoded.
type validatedMeta struct{ metav1.Object }

func (j validatedMeta) GetManagedFields() []metav1.ManagedFieldsEntry {
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

// wipeSystemFields removes the fields that a client may not set in a new object.
func wipeSystemFields(obj Tree) {
	m := metadata(obj)
	for _, key := range []string{"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		delete(m, key)
	}
}

// fillSystemFields sets the creationTimestamp and the uid of a new object.
func fillSystemFields(obj Tree, at time.Time) {
	m := metadata(obj)
	m["creationTimestamp"] = timestamp(at)
	m["uid"] = string(uuid.NewUUID())
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ensureNamespace sets the namespace of the request in the object, or returns an error if the
// object has another one.
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

// ensureName returns an error if the name of the object is not that of the request.
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

// ensureIdentity sets the namespace of the request in the object, and returns an error if the
// object has another namespace or name.
func ensureIdentity(r *Request, obj Tree) error {
	if err := ensureNamespace(r, obj); err != nil {
		return err
	}
	return ensureName(r, obj)
}

// keepSystemFields restores the fields that no update may change, after the kind has prepared the
// object.
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

// requestRevision returns the resourceVersion that a client has set in an object, 0 for none.
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

// The warnings of Kubernetes about repeated owner references, before and after admission.
const (
	repeatedOwners      = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	repeatedOwnersAfter = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
)

// dedupOwners removes repeated owner references and sends a warning.
func dedupOwners(r *Request, obj Tree, warning string) {
	m := metadata(obj)
	refs, ok := m["ownerReferences"].([]any)
	if !ok || len(refs) < 2 {
		return
	}
	var unique []any
	var repeated []string
	seen := map[string]bool{} // by canonical JSON: to compare each with all others costs the square of the list
	for _, ref := range refs {
		text, err := object.AppendJSON(nil, ref)
		if err != nil || !seen[string(text)] {
			seen[string(text)] = true
			unique = append(unique, ref)
			continue
		}
		owner, _ := ref.(map[string]any)
		uid, _ := owner["uid"].(string)
		repeated = append(repeated, uid)
	}
	if len(repeated) > 0 {
		m["ownerReferences"] = unique
		r.Warn(fmt.Sprintf(warning, strings.Join(repeated, ", ")))
	}
}
