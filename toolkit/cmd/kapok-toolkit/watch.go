package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settling is the time without changes after which they are generated from: an editor writes
// several files.
const settling = 100 * time.Millisecond

// watch runs kapok generate with arguments, and again after each change of a source below the
// working directory, until ctx is done. Each run is a process: generators have global state.
func watch(ctx context.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	defer w.Close()
	if err := watchBelow(w, "."); err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	for {
		c := exec.CommandContext(ctx, self, append([]string{"generate"}, args...)...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		var failed *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &failed) && ctx.Err() == nil {
			return err
		}
		if err := awaitChange(ctx, w); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// watchBelow watches a directory and those below it, without those that have no sources.
func watchBelow(w *fsnotify.Watcher, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it is gone again
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case path != "." && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "node_modules", "testdata", "vendor"}, entry.Name())):
			return fs.SkipDir
		}
		return w.Add(path)
	})
}

// awaitChange waits until sources have changed, and then for some time do not. It returns nil if
// ctx is done.
func awaitChange(ctx context.Context, w *fsnotify.Watcher) error {
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settled:
			return nil
		case err := <-w.Errors:
			return fmt.Errorf("watch files: %w", err)
		case event := <-w.Events:
			if info, err := os.Stat(event.Name); event.Has(fsnotify.Create) && err == nil && info.IsDir() {
				if err := watchBelow(w, event.Name); err != nil {
					return fmt.Errorf("watch files: %w", err)
				}
				settled = time.After(settling) // files may be there already
			}
			if isSource(event.Name) && !event.Has(fsnotify.Chmod) {
				settled = time.After(settling)
			}
		}
	}
}

// isSource reports whether a file may be an input of generators: a Go file, a module's file, or a
// header.
func isSource(path string) bool {
	name := filepath.Base(path)
	return !strings.HasPrefix(name, ".") && (slices.Contains([]string{".go", ".mod", ".sum", ".txt"}, filepath.Ext(name)) || name == "PROJECT")
}
