package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// damaged returns a DamagedError about the store in a directory.
func damaged(dir, what string, err error) error {
	return &journal.DamagedError{
		What: what,
		Err:  err,
		Advice: fmt.Sprintf("restore a snapshot with kapok snapshot restore, "+
			"or write out what can still be read with kapok snapshot save --salvage --data-dir %s", filepath.Dir(dir)),
	}
}

// judge distinguishes damage from other read errors: a file that is missing or has unexpected
// content is damaged, one that cannot be read at the moment is not.
func judge(dir, what string, err error) error {
	var (
		already *journal.DamagedError
		path    *fs.PathError
		number  syscall.Errno
	)
	switch {
	case err == nil, errors.As(err, &already),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, errFormat), errors.Is(err, journal.ErrUnopened), errors.Is(err, journal.ErrClosed):
		return err
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist):
		return damaged(dir, what, err)
	case errors.As(err, &path), errors.As(err, &number):
		return err
	}
	return damaged(dir, what, err)
}

// recoverDamage turns a panic of pebble over unexpected bytes into an error.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%v", p)
	}
}

// noRoom reports whether an error is about a full disk.
func noRoom(err error) bool {
	return vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOSPC)
}
