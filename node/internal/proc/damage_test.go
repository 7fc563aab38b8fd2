//go:build linux

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDamage kills runs whose files a container has removed or replaced.
func TestDamage(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	// put replaces a file of the run.
	put := func(name string, with func(path string) error) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return with(path)
		}
	}
	link := func(path string) error { return os.Symlink(outside, path) }
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	directory := func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }
	garbage := func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }
	for name, damage := range map[string]func(dir string) error{
		"no files":             os.RemoveAll,
		"no socket":            func(dir string) error { return os.Remove(filepath.Join(dir, "s")) },
		"a link as lock":       put("lock", link),
		"a pipe as lock":       put("lock", pipe),
		"a directory as lock":  put("lock", directory),
		"a link as exit":       put("exit.json", link),
		"a pipe as exit":       put("exit.json", pipe),
		"a directory as exit":  put("exit.json", directory),
		"a link as new exit":   put("exit.json.new", link),
		"garbage as exit":      put("exit.json", garbage),
		"a link as log":        put("log", link),
		"a pipe as log":        put("log", pipe),
		"a link as directory":  put(".", func(dir string) error { return os.Symlink(filepath.Dir(outside), dir) }),
		"a pipe as directory":  put(".", pipe),
		"garbage as specs":     put("spec.json", garbage),
		"a link as socket":     put("s", link),
		"a pipe as started":    put("started.json", pipe),
		"a directory as specs": put("spec.json", directory),
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" && strings.Contains(name, "socket") {
				t.Skip("finds shims by their environments")
			}
			r, wait := open(t, t.TempDir())
			s := spec("pod", 0, "stubborn")
			if _, err := r.Start(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			dir := r.path(s.ID.dir())
			pids := childrenIn(waitFor(t, filepath.Join(dir, "log"), "ready"))
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if err := r.Kill(s.ID); err != nil {
				t.Error(err)
			}
			wait(s.ID)
			checkGone(t, pids)
			if err := r.Remove("pod"); err != nil {
				t.Error(err)
			}
			if data, err := os.ReadFile(outside); err != nil || string(data) != "text" {
				t.Errorf("outside: %q, %v", data, err)
			}
		})
	}
}

// TestStoppedShim kills a container that has stopped its shim.
func TestStoppedShim(t *testing.T) {
	r, wait := open(t, t.TempDir())
	r.patience = 100 * time.Millisecond
	s := spec("pod", 0, "stubborn")
	run, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pids := childrenIn(waitFor(t, r.path(r.LogPath(s.ID)), "ready"))
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	p, _ := statOf(run.Pid)
	if err := syscall.Kill(p.parent, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); !stopped(t, p.parent); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the parent does not stop")
		}
	}
	if err := r.Terminate(s.ID); err != nil { // is ignored by the program
		t.Error(err)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Error(err)
	}
	if end := wait(s.ID); end.Reason != Lost {
		t.Errorf("the end is %+v, want the reason %s", end, Lost)
	}
	checkGone(t, append(pids, run.Pid, p.parent))
}

// stopped reports whether all threads of a process are stopped: on other processors, they run a
// little longer.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("the threads of process %d: %v, %v", pid, threads, err)
	}
	for _, file := range threads {
		data, _ := os.ReadFile(file) // of one that has ended there is nothing
		if _, fields, found := strings.Cut(string(data), ") "); found && !strings.HasPrefix(fields, "T") {
			return false
		}
	}
	return true
}

// TestForeignFiles opens a directory in which containers have left files of their own.
func TestForeignFiles(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"pods/file":             "",
		"pods/a/file":           "",
		"pods/a/c/0/spec.json":  "{",
		"pods/b/c/0/spec.json":  `{"ID":{"Pod":"../..","Container":"c","Attempt":7}}`,
		"pods/d/c/0/spec.json":  `{}`,
		"pods/d/c/0/exit.json":  `"`,
		"pods/e/c/01/spec.json": `{}`,
		"pods/f/c/0/log":        "",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(outside, "c", "1"), 0o700), // looks like a run that has not begun
		os.Symlink(outside, filepath.Join(dir, "pods", "link")),
		os.Symlink(filepath.Join(outside, "c"), filepath.Join(dir, "pods", "a", "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, wait := open(t, dir)
	for _, pod := range []string{"a", "b", "d"} {
		id := ID{Pod: pod, Container: "c"}
		if end := wait(id); end.Reason != Lost {
			t.Errorf("%s: the end is %+v, want the reason %s", id, end, Lost)
		}
	}
	if pods := r.Pods(); len(pods) != 3 {
		t.Errorf("the pods are %v, want a, b, d", pods)
	}
	if _, err := os.Stat(filepath.Join(outside, "c", "1")); err != nil {
		t.Errorf("outside: %v", err)
	}
}

// TestFullDisk keeps what is in a log when the disk is full.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full: ", err)
	}
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l := openLog(dir, "log", 0, 0)
	defer l.close()
	l.write(appendEntry(nil, time.Now(), "stdout", true, []byte("first")))
	l.file.Close()
	l.file = full
	l.write(appendEntry(nil, time.Now(), "stdout", true, []byte("lost")))
	l.write(appendEntry(nil, time.Now(), "stdout", true, []byte("last")))
	text := readText(t, filepath.Join(dir.Name(), "log"))
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "first\n") || !strings.Contains(text, "last\n") {
		t.Errorf("the log is %q", text)
	}
}
