// Package history stores the templates of StatefulSets and DaemonSets as ControllerRevisions.
//
// Data, names and hashes are those of kube-controller-manager, byte for byte: a store that it has
// used causes no rollout.
//
// The package starts no goroutine and has no locks.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/owned"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"
)

// HashLabel is the label of revisions of StatefulSets with the hash of their data.
const HashLabel = "controller.kubernetes.io/hash"

// maxPrefix is the maximum length of the owner's name in that of a revision.
const maxPrefix = 223

// Data returns the data of a revision of a template: a strategic merge patch that restores it.
// It rounds numbers as Kubernetes does for StatefulSets.
func Data(template *corev1.PodTemplateSpec) ([]byte, error) {
	return dataOf(template, func(data []byte, to any) error { return json.Unmarshal(data, to) })
}

func dataOf(template *corev1.PodTemplateSpec, unmarshal func([]byte, any) error) ([]byte, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	var fields map[string]any // sorts the keys
	if err := unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// ExactData returns the data of a revision of a DaemonSet: Data with all digits of large numbers.
func ExactData(template *corev1.PodTemplateSpec) ([]byte, error) {
	return dataOf(template, utiljson.Unmarshal)
}

// Template returns the template that a revision keeps.
func Template(revision *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision.Name, err)
	}
	if data.Spec.Template == nil {
		return nil, fmt.Errorf("revision %s has no template", revision.Name)
	}
	return data.Spec.Template, nil
}

// Hash returns the hash of the data of a revision. collisions changes it where different data have
// the same.
func Hash(data []byte, collisions int32) string {
	h := fnv.New32()
	h.Write(data)
	h.Write([]byte(strconv.Itoa(int(collisions))))
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// Name returns the name of the revision with a hash.
func Name(owner, hash string) string { return owner[:min(len(owner), maxPrefix)] + "-" + hash }

// List returns the revisions that the owner controls, and those without a controller. They belong
// to the cache.
func List(ctx context.Context, r client.Reader, owner client.Object) ([]*appsv1.ControllerRevision, error) {
	var mine, orphans appsv1.ControllerRevisionList
	if err := owned.List(ctx, r, &mine, owner.GetNamespace(), owner.GetUID()); err != nil {
		return nil, err
	}
	if err := owned.ListOrphans(ctx, r, &orphans, owner.GetNamespace()); err != nil {
		return nil, err
	}
	return owned.Pointers(mine.Items, orphans.Items), nil
}

// Sort sorts revisions by their number, those with the same by age.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Last returns the highest number of revisions; 0 if there are none.
func Last(revisions []*appsv1.ControllerRevision) (last int64) {
	for _, r := range revisions {
		last = max(last, r.Revision)
	}
	return last
}

// Create creates a revision of the owner, named by the hash of its data. If another revision has
// that name, it increments collisions until the name is free. A revision with the same data is
// returned instead, as another replica of the controller may have created it.
func Create(ctx context.Context, c client.Client, live client.Reader, owner client.Object, revision *appsv1.ControllerRevision, collisions *int32) (*appsv1.ControllerRevision, error) {
	for {
		next := revision.DeepCopy()
		next.Namespace = owner.GetNamespace()
		next.Name = Name(owner.GetName(), Hash(next.Data.Raw, *collisions))
		err := c.Create(ctx, next)
		if !apierrors.IsAlreadyExists(err) {
			return next, err
		}
		had := &appsv1.ControllerRevision{}
		if err := live.Get(ctx, client.ObjectKeyFromObject(next), had); err != nil {
			return nil, err
		}
		if bytes.Equal(had.Data.Raw, revision.Data.Raw) {
			return had, nil
		}
		*collisions++
	}
}

// Renumber gives a revision another number, unless it has it.
func Renumber(ctx context.Context, c client.Client, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	if revision.Revision == number {
		return revision, nil
	}
	next := revision.DeepCopy()
	next.Revision = number
	return next, c.Update(ctx, next)
}

// Delete deletes a revision. One that no longer exists is no error.
func Delete(ctx context.Context, c client.Client, revision *appsv1.ControllerRevision) error {
	gone := &appsv1.ControllerRevision{}
	gone.Namespace, gone.Name = revision.Namespace, revision.Name
	return client.IgnoreNotFound(c.Delete(ctx, gone))
}
