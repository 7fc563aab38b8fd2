//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOrphanAtBirth starts an etcd whose parent is gone before it can look.
func TestOrphanAtBirth(t *testing.T) {
	if own, err := unix.Getsid(0); err != nil || own == os.Getpid() {
		t.Skip("who takes in orphans here cannot be told from a parent")
	} else if init, err := unix.Getsid(1); err == nil && init == own {
		t.Skip("who takes in orphans here is of the same session")
	}
	kapok, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(kapok, dir+"/etcd"); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	sh := exec.Command("sh", "-c", dir+"/etcd --listen-client-urls=http://127.0.0.1:0 --data-dir="+dir+"/data &")
	sh.Stdout, sh.Stderr = write, write
	err = sh.Run()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(read) // ends when the process does
	if err != nil || !strings.Contains(string(said), "KAPOK_DETACHED") {
		t.Errorf("%s, %v", said, err)
	}
}
