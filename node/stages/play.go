package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// play plays the stage of a plan, from the step at which it has failed before, and reports whether
// the object has changed. It returns an error if the step is to be tried again.
func (p *player) play(ctx context.Context, o client.Object, pl *plan) (changed bool, err error) {
	var refused error // of the last request
	request := func(err error) error {
		refused = err
		return err
	}
	step, err := pl.stage.DoSteps(pl.step, o.GetFinalizers(), o, renderer{p, nodeOf(o), p.templates},
		func(e *internalversion.StageEvent) error {
			if p.kind.Kind != "Event" { // it would be selected again
				p.events.Event(o, e.Type, e.Reason, e.Message)
			}
			return nil
		},
		func() error {
			changed = true
			uid := o.GetUID()
			return request(client.IgnoreNotFound(p.client.Delete(ctx, p.target(o), client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})))
		},
		func(patch *lifecycle.Patch) error {
			revision, err := p.patch(ctx, p.target(o), patch)
			changed = changed || revision != o.GetResourceVersion()
			return request(err)
		},
		func(apply *lifecycle.Apply) error {
			u, err := p.decode(apply.Data, o.GetNamespace())
			if err != nil {
				return err
			}
			return request(p.apply(ctx, u, apply))
		},
	)
	switch {
	case err == nil:
		return changed, nil
	case refused != nil && step >= 0 && transient(refused):
		pl.step = step
		return changed, fmt.Errorf("stage %s: %w", pl.stage.Name(), err)
	case apierrors.IsNotFound(refused) && !p.exists(ctx, o): // it was deleted meanwhile
	default:
		p.fail(o, fmt.Errorf("stage %s: %w", pl.stage.Name(), err))
	}
	return false, nil
}

// exists reports whether an object is still there.
func (p *player) exists(ctx context.Context, o client.Object) bool {
	now := newObject(p.kind)
	return p.client.Get(ctx, client.ObjectKeyFromObject(o), now) == nil && now.GetUID() == o.GetUID()
}

// transient reports whether a request that has failed may succeed later: the server was not
// reached, or is busy.
func transient(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
}

// target returns an object for a write whose answer needs only metadata.
func (p *player) target(o client.Object) *metav1.PartialObjectMetadata {
	t := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
	t.SetGroupVersionKind(p.kind)
	return t
}

// patch sends a patch, and returns the resourceVersion of the object after it.
func (p *player) patch(ctx context.Context, target *metav1.PartialObjectMetadata, patch *lifecycle.Patch) (string, error) {
	by, err := p.as(patch.Impersonation)
	if err != nil {
		return "", err
	}
	data := client.RawPatch(patch.Type, patch.Data)
	if patch.Subresource == "" {
		err = by.Patch(ctx, target, data)
	} else {
		err = by.SubResource(patch.Subresource).Patch(ctx, target, data)
	}
	return target.ResourceVersion, err
}

// decode returns the object that a step applies.
func (p *player) decode(data []byte, namespace string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, fmt.Errorf("decode the applied object: %w", err)
	}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, errors.New("the applied object must have apiVersion and kind")
	}
	namespaced, err := p.client.IsObjectNamespaced(u)
	if err != nil {
		return nil, err
	}
	if namespaced && u.GetNamespace() == "" {
		u.SetNamespace(namespace)
	}
	return u, nil
}

// apply creates the object of a step, or patches it if it exists.
func (p *player) apply(ctx context.Context, u *unstructured.Unstructured, apply *lifecycle.Apply) error {
	by, err := p.as(apply.Impersonation)
	if err != nil {
		return err
	}
	if apply.Subresource == "" {
		if err := by.Create(ctx, u.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return err
	}
	var options client.PatchOptions
	if apply.Type == types.ApplyPatchType {
		options = client.PatchOptions{FieldManager: "kwok", Force: new(true)}
	}
	if apply.Subresource != "" {
		return by.SubResource(apply.Subresource).Patch(ctx, u, client.RawPatch(apply.Type, data), &client.SubResourcePatchOptions{PatchOptions: options})
	}
	return by.Patch(ctx, u, client.RawPatch(apply.Type, data), &options)
}

// as returns a client that impersonates a user, or that of the player.
func (p *player) as(user *internalversion.ImpersonationConfig) (client.Client, error) {
	if user == nil || user.Username == "" {
		return p.client, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.users[user.Username]; c != nil {
		return c, nil
	}
	config := rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user.Username}
	c, err := client.New(config, p.options)
	if err != nil {
		return nil, err
	}
	p.users[user.Username] = c
	return c, nil
}
