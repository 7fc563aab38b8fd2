//go:build unix

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOrphanAtBirth starts programs whose parent is gone before they can look: they end, and leave
// no directory that was made for them.
func TestOrphanAtBirth(t *testing.T) {
	if own, err := unix.Getsid(0); err != nil || own == os.Getpid() {
		t.Skip("the process that adopts orphans cannot be distinguished from a parent")
	} else if init, err := unix.Getsid(1); err == nil && init == own {
		t.Skip("the process that adopts orphans is in the same session")
	}
	kapok, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string]string{
		"etcd":           "--listen-client-urls=http://127.0.0.1:0 --data-dir=",
		"kube-apiserver": "--bind-address=127.0.0.1 --secure-port=0 --etcd-servers=http://127.0.0.1:1 --cert-dir=",
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			scratch := filepath.Join(temp, "k8s_test_framework_1")
			program := filepath.Join(temp, name)
			if err := errors.Join(os.Mkdir(scratch, 0o700), os.Symlink(kapok, program)); err != nil {
				t.Fatal(err)
			}
			if said := orphan(t, program+" "+flags+scratch); !strings.Contains(said, "KAPOK_DETACHED") {
				t.Errorf("it says %q", said)
			}
			if _, err := os.Stat(scratch); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its directory is left: %v", err)
			}
		})
	}
}

// orphan runs a command whose parent exits at once, and returns its output after it has ended.
func orphan(t *testing.T, command string) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	sh := exec.Command("sh", "-c", command+" &")
	sh.Stdout, sh.Stderr = write, write
	err = sh.Run()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(read) // ends when the process does
	if err != nil {
		t.Error(err)
	}
	return string(said)
}
