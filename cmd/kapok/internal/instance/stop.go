package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrNotRunning is the error of Stop for an instance that does not run.
var ErrNotRunning = errors.New("not running")

// Stop asks the process of an instance to end, or kills it, and waits until it has ended.
func (i Instance) Stop(ctx context.Context, kill bool) error {
	id, locked := i.Locked()
	if !locked {
		return ErrNotRunning
	}
	if id == 0 {
		return fmt.Errorf("the process of instance %s is not visible here: it may run in another container", i.Name)
	}
	p, err := os.FindProcess(id)
	if err != nil {
		return err
	}
	defer p.Release()
	// Where the handle above refers to a process, and not to an ID, the ID cannot be that of a later
	// process once it still is the holder of the lock.
	if now, _ := i.Locked(); now != id {
		return i.await(ctx)
	}
	do := stop
	if kill {
		do = (*os.Process).Kill
	}
	if err := do(p); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d of instance %s: %w", id, i.Name, err)
	}
	return i.await(ctx)
}

// await waits until the instance does not run.
func (i Instance) await(ctx context.Context) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if _, locked := i.Locked(); !locked {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
