//go:build unix

package server

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestOpenDataDirectoryIsClosed checks that a start removes other users' access to the data
// directory and to its files.
func TestOpenDataDirectoryIsClosed(t *testing.T) {
	leakFree(t)
	dir := t.TempDir()
	run := func() string {
		t.Helper()
		var log bytes.Buffer
		opts := Options{DataDir: dir, Listen: anyPort, UnsafeNoFsync: true, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		s, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if log := run(); modeOf(t, dir).Perm() != 0o700 || !strings.Contains(log, "data directory was accessible to other users") {
		t.Errorf("mode %v, log %s", modeOf(t, dir), log)
	}
	secrets := []string{"token", "ca.key", "admin.pem", "server.pem", "service-account.pem", "front-proxy-ca.key", "front-proxy.pem"}
	for _, name := range secrets {
		if err := os.Chmod(filepath.Join(dir, "pki", name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := run()
	for _, name := range secrets {
		file := filepath.Join(dir, "pki", name)
		if modeOf(t, file).Perm() != 0o600 || !strings.Contains(log, "file="+file) {
			t.Errorf("%s has mode %v, log %s", name, modeOf(t, file), log)
		}
	}
	if log := run(); strings.Contains(log, "accessible to other users") {
		t.Errorf("no file was accessible to other users, log %s", log)
	}
}

// TestSharedDataDirectoryIsRefused checks that the server does not remove other users' access to a
// directory like /tmp.
func TestSharedDataDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "shared with other users") || !strings.Contains(err.Error(), filepath.Join(dir, "kapok")) {
		t.Errorf("got %v", err)
	}
	if got := modeOf(t, dir); got.Perm() != 0o777 {
		t.Errorf("its mode is %v", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("the directory contains %v, %v", entries, err)
	}
}

// TestReadableSecretsAreLogged checks that the server logs, but does not change, the mode of files
// that the options name.
func TestReadableSecretsAreLogged(t *testing.T) {
	leakFree(t)
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte("secret,jane,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o644, 0o640} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		opts := Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		opts.Authentication.TokenFile = file
		s, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "file="+file); got != (mode == 0o644) {
			t.Errorf("mode %v: log %s", mode, log.String())
		}
		if modeOf(t, file).Perm() != mode {
			t.Errorf("its mode is %v", modeOf(t, file))
		}
	}
}
