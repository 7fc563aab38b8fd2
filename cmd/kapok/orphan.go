package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// attached returns a context that ends with the cause errOrphan when the parent process has ended:
// a test that crashes does not stop the processes it started. KAPOK_DETACHED=1 disables this.
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

var errOrphan = errors.New("the parent process has ended (set KAPOK_DETACHED=1 to keep running)")

// orphaned reports whether a context of attached has ended because the parent process has.
func orphaned(ctx context.Context) bool { return context.Cause(ctx) == errOrphan }

// removeScratch removes a directory which controller-runtime's envtest has made for a process, and
// would have removed. It leaves all others alone.
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
