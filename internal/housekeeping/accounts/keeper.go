// Package accounts maintains the objects of service accounts, as Kubernetes' controllers do:
//
//   - in each namespace the account default, and the config map kube-root-ca.crt with the authority
//     of the server, if it has one. Both are created again after a deletion, and changes of the
//     config map are reverted;
//   - in each secret of type kubernetes.io/service-account-token the token of the account that its
//     annotation names. The secret is deleted when that account is gone.
//
// A [Keeper] follows the state, and writes through the store like a client. It owns one goroutine,
// which is idle without relevant changes. One Keeper serves all servers of a store.
package accounts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure a Keeper.
type Options struct {
	Logger *slog.Logger
	// Issuer issues the tokens of secrets.
	Issuer *serviceaccount.Issuer
	// Authority is the certificate with which clients verify the server, in PEM; empty if there is
	// none, and then no config map is written.
	Authority []byte
	// NoAccounts disables the account default, NoTokens the tokens of secrets.
	NoAccounts, NoTokens bool
}

// A Keeper maintains the objects of service accounts. [Start] starts it.
type Keeper struct {
	Options
	store *resource.Store
	state *state.State
	feed  *state.Feed

	stop func()
	done sync.WaitGroup

	// The fields below belong to the goroutine.
	queue  []object.Key // keys of namespaces, accounts and secrets to process
	queued map[object.Key]bool
	failed []object.Key // to retry after a pause
	pause  time.Duration
}

// A failed key is retried after a pause, which doubles from the first to the last of these.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Minute
)

// Start processes all objects once, and then follows their changes until Close.
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

// Close ends the goroutine and waits for it.
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

// matters selects the events of the feed.
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

// replaced reports whether an event creates or deletes an object, or replaces it by another one of
// the same name.
func replaced(e *state.Event) bool {
	return e.Object == nil || e.Prev == nil || e.Object.Meta.UID != e.Prev.Meta.UID
}

// mayHoldToken excludes most secrets without a token, without decoding them.
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
		k.queue = nil // releases the memory of a long queue
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

// observe queues the objects that an event affects.
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
		if e.Prev != nil { // secrets may refer to it
			k.add(key)
		}
	}
}

// keep processes one object.
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
	if k.NoTokens {
		return nil
	}
	return k.keepSecret(ctx, key)
}

// settle schedules a retry after an error. Conflicts need none, because the other write follows as
// an event.
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
		k.Logger.Warn("cannot update the objects of service accounts", "object", key.String(), "retry", k.pause, "error", err)
	}
}

// The field managers of Kubernetes' controllers, and of those in kube-apiserver.
const (
	manager = "kube-controller-manager"
	tracker = "kube-apiserver"
)

func (k *Keeper) request(gr schema.GroupResource, namespace, name string) (*resource.Request, error) {
	return request(k.store, gr, namespace, name, manager)
}

// request returns a request for an object of a core resource.
func request(store *resource.Store, gr schema.GroupResource, namespace, name, manager string) (*resource.Request, error) {
	d := store.Registry().Load().Resource(gr)
	if d == nil {
		return nil, errors.New(gr.String() + " are not served")
	}
	return &resource.Request{
		Definition: d, Version: d.Storage, Namespace: namespace, Name: name,
		Manager: manager, FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
	}, nil
}
