package replica

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	memberPrefix = "kapok-"
	leaderName   = "kapok-controllers"

	// component is the label of replicas' Leases.
	component = "kapok.dev/component"
	// servesAnnotation is the revision up to which a server serves definitions.
	servesAnnotation = "kapok.dev/serves"
)

// leases reads and writes the Leases of replicas.
type leases struct {
	store      *resource.Store
	definition *resource.Definition
	name       string // the name of this server
}

func newLeases(store *resource.Store, name string) (*leases, error) {
	gr := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	d := store.Registry().Load().Resource(gr)
	if d == nil {
		return nil, fmt.Errorf("%s are not served", gr)
	}
	if memberPrefix+name == leaderName {
		return nil, fmt.Errorf("server name %q is reserved: choose another one", name)
	}
	return &leases{store: store, definition: d, name: name}, nil
}

func (l *leases) key(name string) object.Key { return l.definition.Key(metav1.NamespaceSystem, name) }

// ours reports whether a Lease belongs to a replica: other Leases may have such names.
func (l *leases) ours(o *object.Object) bool {
	value, ok := o.Meta.Labels.Lookup(component)
	return o.Key.Namespace == metav1.NamespaceSystem && strings.HasPrefix(o.Key.Name, memberPrefix) && ok && value == "replica"
}

// snapshot returns the Leases of replicas, and a cursor, which may repeat some of the changes that
// the snapshot includes.
func (l *leases) snapshot() ([]*object.Object, *state.Cursor) {
	st, gr := l.store.State(), l.definition.GroupResource()
	for {
		cursor, err := st.Watch(gr, st.Revision())
		if err != nil {
			continue // the revision was compacted in between
		}
		var found []*object.Object
		for o := range st.Snapshot(gr).All(metav1.NamespaceSystem) {
			if l.ours(o) {
				found = append(found, o)
			}
		}
		return found, cursor
	}
}

// read returns the holder of a Lease and its annotation.
func (l *leases) read(o *object.Object) (holder string, serves object.Revision) {
	tree, err := o.Tree()
	if err != nil {
		return "", 0
	}
	holder, _, _ = unstructured.NestedString(tree, "spec", "holderIdentity")
	text, _, _ := unstructured.NestedString(tree, "metadata", "annotations", servesAnnotation)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return holder, 0
	}
	return holder, object.Revision(n)
}

// renew creates or replaces the Lease of this server, and returns its revision.
func (l *leases) renew(ctx context.Context, serves object.Revision) (object.Revision, error) {
	name := memberPrefix + l.name
	for {
		var at object.Revision
		if o, _ := l.store.State().Get(l.key(name)); o != nil {
			at = o.Revision
		}
		revision, err := l.write(ctx, name, l.name, at, map[string]any{servesAnnotation: serves.String()})
		if err == nil || !isTaken(err) || at == 0 && apierrors.IsNotFound(err) || ctx.Err() != nil {
			return revision, err // not found: the namespace is missing
		}
	}
}

// take writes the Lease of the leader if it is still at a revision; zero means that it must not
// exist.
func (l *leases) take(ctx context.Context, at object.Revision, holder string) error {
	_, err := l.write(ctx, leaderName, holder, at, nil)
	return err
}

// isTaken reports whether another server wrote the Lease first.
func isTaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

func (l *leases) write(ctx context.Context, name, holder string, at object.Revision, annotations map[string]any) (object.Revision, error) {
	metadata := map[string]any{"name": name, "namespace": metav1.NamespaceSystem, "labels": map[string]any{component: "replica"}}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	if at > 0 {
		metadata["resourceVersion"] = at.String()
	}
	body, err := object.AppendJSON(nil, map[string]any{
		"apiVersion": l.definition.APIVersion(l.definition.Storage), "kind": l.definition.Kind, "metadata": metadata,
		"spec": map[string]any{
			"holderIdentity":       holder,
			"leaseDurationSeconds": int64(duration / time.Second),
			"renewTime":            time.Now().UTC().Format(metav1.RFC3339Micro),
		},
	})
	if err != nil {
		return 0, err
	}
	var result resource.Result
	if at > 0 {
		result, err = l.store.Update(ctx, l.request(name), resource.Body{Data: body})
	} else {
		request := l.request(name)
		request.Name = ""
		result, err = l.store.Create(ctx, request, resource.Body{Data: body})
	}
	if err != nil {
		return 0, err
	}
	return result.Object.Revision, nil
}

// leave removes the Lease of this server, and releases the lead.
func (l *leases) leave(ctx context.Context) {
	if o, _ := l.store.State().Get(l.key(leaderName)); o != nil {
		if holder, _ := l.read(o); holder == l.name {
			_ = l.take(ctx, o.Revision, "")
		}
	}
	_ = l.remove(ctx, memberPrefix+l.name)
}

func (l *leases) remove(ctx context.Context, name string) error {
	_, err := l.store.Delete(ctx, l.request(name), nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (l *leases) request(name string) *resource.Request {
	return &resource.Request{
		Definition: l.definition, Version: l.definition.Storage, Namespace: metav1.NamespaceSystem, Name: name,
		Manager: "kapok", FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}
