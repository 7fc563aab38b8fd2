//go:build linux || darwin

package beneath

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLinks checks that no link is followed, not even one to a place below the same directory, and
// that pipes are not waited for.
func TestLinks(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "file"), []byte("secret"), 0o600),
		os.Mkdir(filepath.Join(inside, "dir"), 0o700),
		os.WriteFile(filepath.Join(inside, "dir", "file"), []byte("text"), 0o600),
		os.Symlink(outside, filepath.Join(inside, "out")),
		os.Symlink("dir", filepath.Join(inside, "in")),
		os.Symlink("file", filepath.Join(inside, "dir", "link")),
		os.Symlink(filepath.Join(outside, "file"), filepath.Join(inside, "dir", "absolute")),
		syscall.Mkfifo(filepath.Join(inside, "dir", "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if data, err := Read(root, "dir/file", 4); err != nil || string(data) != "text" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := Read(root, "dir/file", 3); err == nil {
		t.Error("a file beyond the limit was read")
	}
	for _, name := range []string{"out/file", "in/file", "dir/link", "dir/absolute", "dir/pipe", "../dir/file", "dir", "none"} {
		if data, err := Read(root, name, 100); err == nil {
			t.Errorf("%s was read: %q", name, data)
		}
	}
	for _, name := range []string{"out/new", "in/new"} {
		if err := Create(root, name, nil, 0o600); err == nil {
			t.Errorf("%s was created", name)
		}
		if err := Replace(root, name, nil, true); err == nil {
			t.Errorf("%s was replaced", name)
		}
		if d, err := MakeDir(root, name); err == nil {
			d.Close()
			t.Errorf("the directory %s was made", name)
		}
		if err := RemoveAll(root, filepath.Dir(name)+"/file"); err == nil {
			t.Errorf("%s was removed", name)
		}
	}
	for _, name := range []string{"dir/link", "dir/absolute", "dir/pipe", "dir/other"} {
		if err := Replace(root, name, []byte("new"), false); err != nil {
			t.Error(err)
		}
		if data, err := Read(root, name, 100); err != nil || string(data) != "new" {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
	}
	if err := Create(root, "dir/other", nil, 0o600); err == nil {
		t.Error("a file that exists was created")
	}
	if err := RemoveAll(root, "out"); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(data) != "secret" {
		t.Errorf("outside: %q, %v", data, err)
	}
	if data, err := os.ReadFile(filepath.Join(inside, "dir", "file")); err != nil || string(data) != "text" {
		t.Errorf("the target of a link: %q, %v", data, err)
	}
}

// TestRemoveAll removes directories that do not permit changes.
func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700),
		os.WriteFile(filepath.Join(dir, "a/b/c/file"), nil, 0o400),
		os.Chmod(filepath.Join(dir, "a/b/c"), 0o500),
		os.Chmod(filepath.Join(dir, "a/b"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAll(root, "a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a")); err == nil {
		t.Error("the directory is there")
	}
	if err := RemoveAll(root, "none/file"); err != nil {
		t.Error(err)
	}
}

// TestRemoveDeep removes more directories in each other than this process may have files open, with
// and without the permission to change them.
func TestRemoveDeep(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	for _, mode := range []os.FileMode{0o700, 0o500, 0} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := os.MkdirAll(filepath.Join(dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		var all []*os.Root // of the last directories, which are locked at the end
		current, err := root.OpenRoot("a")
		for range 1000 {
			if err == nil {
				err = current.Mkdir("d", 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			next, failed := current.OpenRoot("d")
			if all = append(all, current); len(all) > 100 {
				all[0].Close()
				all = all[1:]
			}
			current, err = next, failed
		}
		current.Close()
		for i := len(all) - 1; i >= 0; i-- {
			if err := all[i].Chmod(".", mode); err != nil {
				t.Fatal(err)
			}
			all[i].Close()
		}
		if err := RemoveAll(root, "a"); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "a")); err == nil {
			t.Errorf("mode %o: the directory is there", mode)
		}
	}
}
