package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The toolkit gets the command line, and its exit code is that of kapok.
func TestToolkit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in is a shell script")
	}
	path := filepath.Join(t.TempDir(), "toolkit")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"$@\"\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newShell(t, "")
	s.env = append(s.env, toolkitPath+"="+path)
	for _, line := range []string{"init --domain example.com", "create api --group a --version v1 --kind B", "edit --help", "generate --check", "init --help"} {
		if code, stdout, stderr := s.kapok("", line); code != 3 || stdout != line+"\n" || stderr != "" {
			t.Errorf("kapok %s: exit code %d\n%s%s", line, code, stdout, stderr)
		}
	}
	s.env = append(s.env, toolkitPath+"="+path+"-absent")
	if code, stdout, stderr := s.kapok("", "init"); code != exitFailure || stdout != "" || !strings.HasPrefix(stderr, "kapok: run kapok-toolkit: ") {
		t.Errorf("without a toolkit: exit code %d\n%s%s", code, stdout, stderr)
	}
}
