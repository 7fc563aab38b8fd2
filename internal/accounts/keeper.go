// Package accounts keeps what goes with service accounts, as Kubernetes' controllers do:
//
//   - in each namespace the account default, and the config map kube-root-ca.crt with the authority by which the server
//     is trusted, if it has one; both come back when somebody deletes them, and the config map when somebody changes it;
//   - in each secret of type kubernetes.io/service-account-token the token of the account that its annotation names, as
//     long as that account is there; then the secret goes.
//
// A [Keeper] follows the state, and writes as any client does. It has one goroutine,
// which sleeps while nothing happens that concerns it. One Keeper is enough for all
// servers of a store.
package accounts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth/serviceaccount"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options are the settings of a Keeper.
type Options struct {
	Logger *slog.Logger
	// Issuer makes the tokens of secrets.
	Issuer *serviceaccount.Issuer
	// Authority is the certificate, in PEM, by which clients trust the server; empty if they need none.
	Authority []byte
}

// A Keeper keeps accounts. Start one with [Start].
type Keeper struct {
	Options
	store *resource.Store
	state *state.State
	feed  *state.Feed

	stop func()
	done sync.WaitGroup

	// The rest belongs to the goroutine.
	queue  []object.Key // what to look at: namespaces, accounts and secrets
	queued map[object.Key]bool
	failed []object.Key // to look at again after a pause
	pause  time.Duration
}

// The pauses before something that has failed is tried again.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Minute
)

// Start looks at everything once, and then follows what changes until Close.
func Start(ctx context.Context, store *resource.Store, o Options) *Keeper {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &Keeper{Options: o, store: store, state: store.State(), stop: cancel, queued: map[object.Key]bool{}}
	k.feed = k.state.Feed(k.matters)
	k.done.Go(func() {
		defer k.feed.Close()
		k.scan()
		k.run(ctx)
	})
	return k
}

// Close ends the keeper, and waits for it.
func (k *Keeper) Close() {
	k.stop()
	k.done.Wait()
}

var (
	namespaces = schema.GroupResource{Resource: "namespaces"}
	accounts   = schema.GroupResource{Resource: "serviceaccounts"}
	configMaps = schema.GroupResource{Resource: "configmaps"}
	secrets    = schema.GroupResource{Resource: "secrets"}
)

const (
	defaultAccount = "default"
	rootAuthority  = "kube-root-ca.crt"
)

// matters is the filter of the feed.
func (k *Keeper) matters(e *state.Event) bool {
	switch key := e.Last().Key; key.Resource {
	case namespaces, accounts:
		return replaced(e)
	case configMaps:
		return key.Name == rootAuthority && len(k.Authority) > 0
	case secrets:
		return e.Object != nil && mayHoldToken(e.Object)
	}
	return false
}

// replaced says whether an object is gone, new, or another one of the same name.
func replaced(e *state.Event) bool {
	return e.Object == nil || e.Prev == nil || e.Object.Meta.UID != e.Prev.Meta.UID
}

// mayHoldToken tells most other secrets from those that hold tokens, without decoding them.
func mayHoldToken(o *object.Object) bool {
	return bytes.Contains(o.Raw, []byte(corev1.SecretTypeServiceAccountToken))
}

func (k *Keeper) scan() {
	for o := range k.state.Snapshot(namespaces).All("") {
		k.add(o.Key)
	}
	for o := range k.state.Snapshot(secrets).All("") {
		if mayHoldToken(o) {
			k.add(o.Key)
		}
	}
}

func (k *Keeper) add(key object.Key) {
	if !k.queued[key] {
		k.queued[key] = true
		k.queue = append(k.queue, key)
	}
}

func (k *Keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		events, wait := k.feed.Take()
		for i := range events {
			k.observe(&events[i])
		}
		if len(k.queue) > 0 {
			key := k.queue[0]
			k.queue = k.queue[1:]
			delete(k.queued, key)
			k.settle(key, k.keep(ctx, key))
			continue
		}
		if len(events) > 0 {
			continue
		}
		k.queue = nil // it may have been long
		var alarm <-chan time.Time
		if len(k.failed) > 0 {
			alarm = time.After(k.pause)
		}
		select {
		case <-wait:
		case <-alarm:
			for _, key := range k.failed {
				k.add(key)
			}
			k.failed = nil
		case <-ctx.Done():
		}
	}
}

// observe queues what an event has an effect on.
func (k *Keeper) observe(e *state.Event) {
	key := e.Last().Key
	switch key.Resource {
	case namespaces, secrets:
		if e.Object != nil {
			k.add(key)
		}
	case configMaps:
		k.add(object.Key{Resource: namespaces, Name: key.Namespace})
	case accounts:
		if key.Name == defaultAccount {
			k.add(object.Key{Resource: namespaces, Name: key.Namespace})
		}
		if e.Prev != nil { // which secrets may still serve
			k.add(key)
		}
	}
}

// keep looks at one object, and does what there is to do about it.
func (k *Keeper) keep(ctx context.Context, key object.Key) error {
	switch key.Resource {
	case namespaces:
		ns, _ := k.state.Get(key)
		if ns == nil || ns.Meta.Deleting() {
			return nil
		}
		return errors.Join(k.keepAccount(ctx, key.Name), k.keepAuthority(ctx, key.Name))
	case accounts:
		for o := range k.state.Snapshot(secrets).From(key.Namespace, "", "") {
			if mayHoldToken(o) {
				k.add(o.Key)
			}
		}
		return nil
	}
	return k.keepSecret(ctx, key)
}

// settle decides whether something is looked at again. What somebody else has written meanwhile comes by itself.
func (k *Keeper) settle(key object.Key, err error) {
	switch {
	case err == nil:
		if len(k.failed) == 0 {
			k.pause = 0
		}
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(err, context.Canceled):
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	default:
		k.pause = min(max(2*k.pause, firstPause), lastPause)
		k.failed = append(k.failed, key)
		k.Logger.Warn("cannot keep service accounts", "object", key.String(), "retry", k.pause, "error", err)
	}
}

// manager is the name under which Kubernetes' controllers manage fields.
const manager = "kube-controller-manager"

// request is one about an object of a core resource.
func (k *Keeper) request(gr schema.GroupResource, namespace, name string) (*resource.Request, error) {
	d := k.store.Registry().Load().Resource(gr)
	if d == nil {
		return nil, errors.New(gr.String() + " are not served")
	}
	return &resource.Request{
		Definition: d, Version: d.Storage, Namespace: namespace, Name: name,
		Manager: manager, FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
	}, nil
}
