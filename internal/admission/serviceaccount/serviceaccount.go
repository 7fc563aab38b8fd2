// Package serviceaccount is Kubernetes' admission plugin ServiceAccount. A pod runs as a service
// account, default if it names none, and is rejected if the account does not exist. The plugin adds
// the account's image pull secrets, unless the pod names some, and a volume with a token, unless
// the pod or the account opts out.
//
// The account default of a namespace is created shortly after the namespace. The creation of a pod
// in between waits for it, up to two seconds, as in Kubernetes.
package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Plugin admits pods. It implements admission.Mutator and admission.Validator, is safe for
// concurrent use, and starts no goroutine.
type Plugin struct {
	// State has the accounts.
	State *state.State
}

const (
	defaultAccount     = "default"
	ephemeral          = "ephemeralcontainers"
	enforceSecrets     = "kubernetes.io/enforce-mountable-secrets"
	patience           = 2 * time.Second
	mirrorOfStaticPods = corev1.MirrorPodAnnotationKey
)

// Handles implements admission.Plugin.
func (*Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	if r.Definition.Plural != "pods" || r.Definition.Group != "" {
		return false
	}
	return op == resource.OperationCreate && r.Subresource == "" || op == resource.OperationUpdate && r.Subresource == ephemeral
}

// Mutate implements admission.Mutator.
func (p *Plugin) Mutate(ctx context.Context, a *resource.Admitted) error {
	if a.Operation != resource.OperationCreate || mirrors(a.Object) {
		return p.Validate(ctx, a)
	}
	spec := within(a.Object, "spec")
	if text(spec, "serviceAccountName") == "" {
		spec["serviceAccountName"], spec["serviceAccount"] = defaultAccount, defaultAccount
	}
	account, err := p.account(ctx, a, text(spec, "serviceAccountName"))
	if err != nil {
		return err
	}
	if wantsToken(spec, account) {
		mountToken(spec)
	}
	if len(list(spec, "imagePullSecrets")) == 0 {
		var pull []any
		for _, ref := range maps(account, "imagePullSecrets") {
			pull = append(pull, resource.Tree{"name": text(ref, "name")})
		}
		if pull != nil {
			spec["imagePullSecrets"] = pull
		}
	}
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *resource.Admitted) error {
	if a.Operation == resource.OperationCreate && mirrors(a.Object) {
		return judgeMirror(a)
	}
	spec := within(a.Object, "spec")
	name := text(spec, "serviceAccountName")
	if name == "" {
		return forbid(a, fmt.Sprintf("no service account specified for pod %s/%s", a.Request.Namespace, nameOf(a.Object)))
	}
	account, err := p.account(ctx, a, name)
	if err != nil {
		return err
	}
	annotations := within(within(account, "metadata"), "annotations")
	if enforce, _ := strconv.ParseBool(text(annotations, enforceSecrets)); !enforce {
		return nil
	}
	why := ""
	if a.Request.Subresource == ephemeral {
		why = judgeContainers(spec, account, "ephemeralContainers", "ephemeral container")
	} else {
		why = judgeSecrets(spec, account)
	}
	if why != "" {
		return forbid(a, why)
	}
	return nil
}

// account returns the account of a pod. If the account default does not exist yet, it waits for it.
func (p *Plugin) account(ctx context.Context, a *resource.Admitted, name string) (resource.Tree, error) {
	namespace := a.Request.Namespace
	key := object.Key{Resource: schema.GroupResource{Resource: "serviceaccounts"}, Namespace: namespace, Name: name}
	o, _ := p.State.Get(key)
	if o == nil { // another server may have created it
		if shared, _ := p.State.Sync(ctx); shared {
			o, _ = p.State.Get(key)
		}
	}
	if o == nil && name == defaultAccount {
		o = p.await(ctx, key)
	}
	err := error(apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name))
	if o != nil {
		var tree resource.Tree
		if tree, err = o.Tree(); err == nil {
			return tree, nil
		}
	}
	return nil, forbid(a, fmt.Sprintf("error looking up service account %s/%s: %v", namespace, name, err))
}

// await returns an object as soon as it exists; nil if that takes too long.
func (p *Plugin) await(ctx context.Context, key object.Key) *object.Object {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, changed := p.State.Changed()
		if o, _ := p.State.Get(key); o != nil {
			return o
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// mirrors reports whether a pod mirrors a static pod of a node. Those are not changed, and must not
// use accounts and secrets.
func mirrors(pod resource.Tree) bool {
	_, ok := within(within(pod, "metadata"), "annotations")[mirrorOfStaticPods]
	return ok
}

func judgeMirror(a *resource.Admitted) error {
	spec := within(a.Object, "spec")
	if text(spec, "serviceAccountName") != "" {
		return forbid(a, "a mirror pod may not reference service accounts")
	}
	if usesSecret(spec) {
		return forbid(a, "a mirror pod may not reference secrets")
	}
	for _, volume := range maps(spec, "volumes") {
		for _, source := range maps(within(volume, "projected"), "sources") {
			if source["serviceAccountToken"] != nil {
				return forbid(a, "a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

// forbid returns a rejection in the words of Kubernetes' plugins.
func forbid(a *resource.Admitted, why string) error {
	metadata := within(a.Object, "metadata")
	name := a.Name
	for _, other := range []string{text(metadata, "name"), text(metadata, "generateName"), "Unknown"} {
		if name == "" {
			name = other
		}
	}
	return apierrors.NewForbidden(a.Request.GroupResource(), name, errors.New(why))
}
