package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clone makes a repository with one commit.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "no-such-file"))
	t.Setenv("GIT_COMMITTER_DATE", "1767323045 +0100")
	write(t, filepath.Join(dir, "LICENSE"), "license")
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=first"},
	} {
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFindSource(t *testing.T) {
	dir := clone(t)
	s, err := findSource(t.Context(), dir, false)
	if err != nil || len(s.commit) != 40 || s.modified || s.time.Unix() != 1767323045 {
		t.Errorf("a clean clone: %+v, %v", s, err)
	}
	write(t, filepath.Join(dir, "more.go"), "package more")
	if _, err = findSource(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "more.go") {
		t.Errorf("a new file: error %v does not name it", err)
	}
	if s, err = findSource(t.Context(), dir, true); err != nil || !s.modified {
		t.Errorf("a snapshot of changes: %+v, %v", s, err)
	}
	if _, err = findSource(t.Context(), t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("without a repository: %v", err)
	}
	t.Setenv("PATH", "")
	if _, err = findSource(t.Context(), dir, true); err == nil || !strings.Contains(err.Error(), "git") {
		t.Errorf("without git: %v", err)
	}
}

func TestFix(t *testing.T) {
	for epoch, want := range map[string]int64{"": 7, "1000000000": 1000000000, "yesterday": 0, "0": 0, "-1": 0, "99999999999": 0} {
		s := source{time: time.Unix(7, 0)}
		err := s.fix(epoch)
		if got := s.time.Unix(); (err != nil) != (want == 0) || err == nil && got != want {
			t.Errorf("%q: time %d, error %v, want %d", epoch, got, err, want)
		}
	}
}

// TestRun checks which mistakes end the command with which code.
func TestRun(t *testing.T) {
	dir := clone(t)
	full := t.TempDir()
	write(t, filepath.Join(full, "precious"), "")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "-version"},
		{nil, exitUsage, "--version is missing"},
		{[]string{"--version", "v1.0.0", "--source", t.TempDir()}, exitFailure, "not a git repository"},
		{[]string{"--version", "v1.0.0", "--source", dir, "--out", full}, exitFailure, "precious"},
		{[]string{"--version", "v1.0.0", "--source", dir, "--out", filepath.Join(full, "precious")}, exitFailure, "--out"},
		{[]string{"--version", "v1.0.0", "--source", dir, "--out", filepath.Join(t.TempDir(), "dist")}, exitFailure, "build for darwin/amd64"},
	} {
		var log bytes.Buffer
		if code := run(t.Context(), tt.args, "", &log); code != tt.code || !strings.Contains(log.String(), tt.want) {
			t.Errorf("%q: code %d, output %s", tt.args, code, log.String())
		}
	}
	if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: the directory with a file has changed", entries, err)
	}
}
