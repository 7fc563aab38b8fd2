package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kapok-dev/kapok/internal/pki"
)

// othersMode are the permissions of users other than the owner. They must have none on secrets, and
// must not be able to replace the pki or the journal.
const othersMode fs.FileMode = 0o077

// keepPrivate removes the permissions of other users on an existing data directory, and on the keys
// and tokens in it, and logs each change. A directory whose mode cannot be changed, such as that of
// another user, is an error, and so is one that is shared on purpose, like /tmp.
func keepPrivate(dir string, log *slog.Logger) error {
	if dir == "" || runtime.GOOS == "windows" { // where modes have no meaning
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if info.IsDir() && info.Mode().Perm()&othersMode != 0 {
		if info.Mode()&fs.ModeSticky != 0 {
			return fmt.Errorf("data directory %s is shared with other users (mode %v): choose one below it, like %s", dir, info.Mode(), filepath.Join(dir, "kapok"))
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("data directory %s is accessible to other users (mode %v), and its mode cannot be changed: choose one below it, like %s: %w", dir, info.Mode(), filepath.Join(dir, "kapok"), err)
		}
		log.Warn("data directory was accessible to other users of this machine", "directory", dir, "mode", info.Mode(), "now", fs.FileMode(0o700))
	}
	files, err := os.ReadDir(filepath.Join(dir, "pki"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, "pki", f.Name())
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || filepath.Ext(path) == ".crt" || info.Mode().Perm()&othersMode == 0 {
			continue // the reader of the file reports that it is missing or unreadable
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return fmt.Errorf("%s is accessible to other users (mode %v), and its mode cannot be changed: %w", path, info.Mode(), err)
		}
		log.Warn("file with a secret was accessible to other users of this machine: remove it to create a new one if they can have read it",
			"file", path, "mode", info.Mode(), "now", fs.FileMode(0o600))
	}
	return nil
}

// ailments returns the problems of the credentials in the data directory.
func (o *Options) ailments() []string {
	if o.DataDir == "" {
		return nil
	}
	return pki.Examine(o.DataDir, time.Now())
}

// warnOfReadable logs which files with secrets that the options name are readable by every user of
// the machine. It does not change them, since the server does not own them.
func (o *Options) warnOfReadable() {
	if runtime.GOOS == "windows" {
		return
	}
	for _, path := range []string{
		o.Authentication.TokenFile, o.Serving.KeyFile, o.Accounts.SigningKeyFile, o.EncryptionConfig, o.Etcd.KeyFile,
	} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			o.Logger.Warn("file with secrets is readable by every user of this machine", "file", path, "mode", info.Mode())
		}
	}
}
