// Package finalizer has a registry of what is to be done before an object is deleted.
//
//	finalizers := finalizer.NewFinalizers()
//	err := finalizers.Register("example.com/bucket", deleteBucket)
//	...
//	result, err := finalizers.Finalize(ctx, obj) // in Reconcile
//	if result.Updated {
//		err = errors.Join(err, c.Update(ctx, obj))
//	}
package finalizer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/client"
)

// A Finalizer does what is to be done before an object is deleted. It may change the object, and
// says what it has changed. It is called again until it succeeds.
type Finalizer interface {
	Finalize(context.Context, client.Object) (Result, error)
}

// Result says what of an object has changed in memory, and is to be written.
type Result struct {
	// Updated says that something other than the status has changed.
	Updated bool
	// StatusUpdated says that the status has changed.
	StatusUpdated bool
}

// A Registerer adds Finalizers.
type Registerer interface {
	// Register adds the Finalizer for the key, the name in metadata.finalizers. There must be none
	// yet.
	Register(key string, f Finalizer) error
}

// Finalizers is a Finalizer that calls others. An object that is not deleted gets the keys of all;
// of one that is deleted those are called, in the order of their keys, that it still has, and each
// key is removed when its Finalizer has succeeded. What fails does not keep the others from being
// called.
type Finalizers interface {
	Registerer
	Finalizer
}

// NewFinalizers returns Finalizers without any. They are safe for concurrent use.
func NewFinalizers() Finalizers { return &finalizers{byKey: map[string]Finalizer{}} }

type finalizers struct {
	mu    sync.RWMutex
	byKey map[string]Finalizer
}

func (f *finalizers) Register(key string, finalizer Finalizer) error {
	if key == "" || finalizer == nil {
		return fmt.Errorf("finalizer %q: a key and a Finalizer are needed", key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.byKey[key]; ok {
		return fmt.Errorf("finalizer for key %q already registered", key)
	}
	f.byKey[key] = finalizer
	return nil
}

func (f *finalizers) Finalize(ctx context.Context, obj client.Object) (result Result, err error) {
	f.mu.RLock()
	byKey := maps.Clone(f.byKey)
	f.mu.RUnlock()
	var failed []error
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if obj.GetDeletionTimestamp().IsZero() {
			result.Updated = client.AddFinalizer(obj, key) || result.Updated
			continue
		}
		if !client.ContainsFinalizer(obj, key) {
			continue
		}
		did, err := byKey[key].Finalize(ctx, obj)
		result.Updated = result.Updated || did.Updated
		result.StatusUpdated = result.StatusUpdated || did.StatusUpdated
		if err != nil {
			failed = append(failed, fmt.Errorf("finalizer %q failed: %w", key, err))
			continue
		}
		result.Updated = client.RemoveFinalizer(obj, key) || result.Updated
	}
	return result, errors.Join(failed...)
}
