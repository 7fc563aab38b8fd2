package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// attached returns a context that is done, with errOrphan for its cause, when the process that has started this one is gone: nobody
// else ends what a test has begun that crashes. With KAPOK_DETACHED=1 nobody looks.
func attached(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if os.Getenv("KAPOK_DETACHED") != "1" {
		go func() {
			if awaitOrphan(ctx) {
				cancel(errOrphan)
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

var errOrphan = errors.New("who has started this process is gone (KAPOK_DETACHED=1 would have it run on)")

// orphaned says whether a context of attached has ended because nobody is left.
func orphaned(ctx context.Context) bool { return context.Cause(ctx) == errOrphan }

// removeScratch removes a directory which controller-runtime's envtest has made for a process, and would have removed. It
// leaves all others alone.
func removeScratch(dir string) error {
	if dir == "" {
		return nil
	}
	dir = filepath.Clean(dir)
	if filepath.Dir(dir) != filepath.Clean(os.TempDir()) || !strings.HasPrefix(filepath.Base(dir), "k8s_test_framework_") {
		return nil
	}
	return os.RemoveAll(dir)
}
