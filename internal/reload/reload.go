// Package reload loads files, and loads them again when their content changes:
//
//	policy, err := reload.Open(ctx, "audit policy", load, path)
//	if err != nil {
//		return err
//	}
//	go reload.Watch(ctx, logger, policy)
//
// The content that was loaded last remains in effect while a file is missing, unreadable or
// invalid.
//
// The package polls. A notification of the operating system would be missed for files on some
// network file systems, and for those that a symbolic link replaces as a whole, as Kubernetes does
// in volumes; and in a testing/synctest bubble the clock would stand still while one is awaited.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Every is the interval at which [Watch] reads files.
const Every = 10 * time.Second

// A File is a file, or several that belong together, such as a certificate and its key. Make one
// with [Open]. Its methods must not be called concurrently.
type File struct {
	what     string
	paths    []string
	load     Load
	sum      [sha256.Size]byte // of the contents in force
	reported string            // the error that was logged last; "" once the file is in order again
}

// A Load puts the contents of files in force, or returns an error and leaves the previous ones in
// force. It owns the contents, which are in the order of the paths. It may take until ctx is done.
type Load func(ctx context.Context, contents [][]byte) error

// Open reads the files at paths and loads their contents. what names the content in errors and in
// the log, such as "audit policy". The error is that of reading or of load, with what and, for one
// of load, the paths.
func Open(ctx context.Context, what string, load Load, paths ...string) (*File, error) {
	f := &File{what: what, paths: paths, load: load}
	if _, err := f.Refresh(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Refresh reads the files, and loads them if they differ from the contents in force. It reports
// whether it has loaded them. Contents that load has rejected are passed to it again, since it may
// depend on more than them.
func (f *File) Refresh(ctx context.Context) (changed bool, err error) {
	hash := sha256.New()
	var contents [][]byte
	for _, path := range f.paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.what, err) // which has the path
		}
		part := sha256.Sum256(data)
		hash.Write(part[:])
		contents = append(contents, data)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if sum == f.sum {
		return false, nil
	}
	if err := f.load(ctx, contents); err != nil {
		return false, fmt.Errorf("%s in %s: %w", f.what, f.name(), err)
	}
	f.sum = sum
	return true, nil
}

func (f *File) name() string { return strings.Join(f.paths, " and ") }

// Watch refreshes files at each interval, one after the other, until ctx is done. It logs when one
// was loaded, and once when one cannot be.
func Watch(ctx context.Context, log *slog.Logger, files ...*File) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, f := range files {
			f.refresh(ctx, log)
		}
	}
}

func (f *File) refresh(ctx context.Context, log *slog.Logger) {
	changed, err := f.Refresh(ctx)
	switch {
	case ctx.Err() != nil: // which may be why load has failed
	case err == nil:
		f.reported = ""
		if changed {
			log.Info(f.what+" loaded", "file", f.name())
		}
	case err.Error() != f.reported:
		f.reported = err.Error()
		log.Error(f.what+" not loaded: the previous version remains in effect", "file", f.name(), "err", err)
	}
}
