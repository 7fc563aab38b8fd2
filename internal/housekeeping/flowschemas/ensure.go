package flowschemas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// Ensure creates the missing ones of the default objects. plain is for servers without fairness,
// which do not maintain the status of FlowSchemas.
func Ensure(ctx context.Context, store *resource.Store, plain bool) error {
	now := time.Now()
	var missing []journal.Entry
	for _, d := range fairness.Defaults() {
		if o, _ := store.State().Get(d.Key); o != nil {
			continue
		}
		entry, err := entryOf(store, d, plain, now)
		if err != nil {
			return fmt.Errorf("create %s: %w", d.Key, err)
		}
		missing = append(missing, entry)
	}
	if err := write(ctx, store, missing); err != nil {
		return fmt.Errorf("create flow schemas and priority levels: %w", err)
	}
	return nil
}

// entryOf returns the entry that creates a default object.
func entryOf(store *resource.Store, d *fairness.Default, plain bool, now time.Time) (journal.Entry, error) {
	definition := store.Registry().Load().Resource(d.Key.Resource)
	if definition == nil {
		return journal.Entry{}, fmt.Errorf("%s are not served", d.Key.Resource)
	}
	o, err := definition.Stored(d.Key, d.Encode(string(uuid.NewUUID()), now, plain), now)
	return journal.Entry{Key: d.Key, Object: o}, err
}

// write commits new objects, all at once if the journal supports that. Objects that exist stay.
func write(ctx context.Context, store *resource.Store, entries []journal.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	_, err := store.State().Append(ctx, journal.Batch{Entries: entries})
	var conflict *journal.ConflictError
	if exists := errors.As(err, &conflict); !exists && !errors.Is(err, errors.ErrUnsupported) {
		return err
	} else if exists && len(entries) == 1 {
		return nil
	}
	for chunk := range slices.Chunk(entries, 1) {
		if err := write(ctx, store, chunk); err != nil {
			return err
		}
	}
	return nil
}
