// Package finalizer implements a registry of finalizers: functions that run before an object is
// deleted.
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

// A Finalizer cleans up before an object is deleted. It may change the object in memory, and
// reports its changes in the Result. It is called again until it succeeds.
type Finalizer interface {
	Finalize(context.Context, client.Object) (Result, error)
}

// A Result reports which parts of an object have changed in memory and must be written.
type Result struct {
	// Updated reports that something other than the status has changed.
	Updated bool
	// StatusUpdated reports that the status has changed.
	StatusUpdated bool
}

// A Registerer adds Finalizers.
type Registerer interface {
	// Register adds the Finalizer for the key, the name in metadata.finalizers. There must be none
	// yet.
	Register(key string, f Finalizer) error
}

// Finalizers is a Finalizer that calls the registered ones. It adds all keys to an object that is
// not being deleted. For an object that is being deleted, it calls the Finalizers whose keys the
// object still has, in the order of the keys, and removes each key after its Finalizer has
// succeeded. After an error the remaining ones are still called.
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
