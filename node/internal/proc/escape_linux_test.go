package proc

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startReady starts a container, and returns when its log has the word ready.
func startReady(t *testing.T, r *Runtime, s Spec) {
	t.Helper()
	if run, err := r.Start(t.Context(), s); err != nil || run.Exit != nil {
		t.Fatalf("got %+v, %v", run.Exit, err)
	}
	for limit := time.Now().Add(time.Minute); !strings.Contains(output(t, r, s.ID), "ready"); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the container does not start")
		}
	}
}

// TestRootWorkingDirLink replaces the working directory by links to files that the parent of the
// container has open: commands of exec do not begin in a directory of the machine, and do not run
// programs of the machine.
func TestRootWorkingDirLink(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	volume := t.TempDir()
	s := rootSpec(imageWithShell(t), "echo ready; read line")
	s.Stdin, s.Dir, s.Root.Mounts = true, "/volume/dir", []Mount{{Source: volume, Target: "/volume"}}
	startReady(t, r, s)
	dir, script := filepath.Join(volume, "dir"), filepath.Join(volume, "script")
	for fd := range 32 {
		if err := errors.Join(os.RemoveAll(dir), os.Symlink(fmt.Sprintf("/proc/self/fd/%d", fd), dir)); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		err := r.Exec(t.Context(), s.ID, []string{"/bin/sh", "-c", "echo in; ls . ../.. ../../../.."}, Streams{Out: &b})
		if strings.Contains(b.String(), "spec.json") || err == nil {
			t.Errorf("descriptor %d: a command began in a directory of the machine: %s, %v", fd, &b, err)
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for fd := range 32 {
		// The kernel opens the interpreter of a script before it closes the descriptors of the parent.
		text := fmt.Sprintf("#!/proc/self/fd/%d/../../../../../../../../../../../../bin/true\n", fd)
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := r.Exec(t.Context(), s.ID, []string{"/volume/script"}, Streams{}); err == nil {
			t.Errorf("descriptor %d: a program of the machine ran", fd)
		}
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
}

// TestRootProcLink has an image whose /proc or /dev is a link: the guards of /proc would not be at
// its place.
func TestRootProcLink(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	for i, name := range []string{"proc", "dev"} {
		s := rootSpec(imageWithShell(t), `: > /proc/sysrq-trigger && echo written`)
		s.ID.Attempt = i
		if err := errors.Join(os.Mkdir(filepath.Join(s.Root.Lower, "other"), 0o755), os.Symlink("/other", filepath.Join(s.Root.Lower, name))); err != nil {
			t.Fatal(err)
		}
		run, err := r.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if run.Exit == nil || run.Exit.Reason != StartError || !strings.Contains(run.Exit.Message, "/"+name) {
			t.Errorf("/%s: got %+v, want an error", name, run.Exit)
		}
		wait(s.ID)
		if strings.Contains(output(t, r, s.ID), "written") {
			t.Errorf("/%s: a file of the kernel was opened", name)
		}
	}
}

// TestRootMountLinks mounts parts of a volume: links that another container has put there do not
// lead out of it, and a link of the image does not let a volume replace the root directory.
func TestRootMountLinks(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	outside, volume, lower := t.TempDir(), t.TempDir(), imageWithShell(t)
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "data"), []byte("secret\n"), 0o644),
		os.Mkdir(filepath.Join(volume, "dir"), 0o755),
		os.WriteFile(filepath.Join(volume, "dir", "data"), []byte("of the volume\n"), 0o644),
		os.Symlink("dir", filepath.Join(volume, "inside")),
		os.Symlink(outside, filepath.Join(volume, "absolute")),
		os.Symlink("../"+filepath.Base(outside), filepath.Join(volume, "relative")),
		os.Symlink("/", filepath.Join(lower, "root")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, test := range []struct {
		sub, target string
		ok          bool
	}{
		{"dir", "/v", true},
		{"inside", "/v", true},
		{"dir/data", "/v/data", true},
		{"absolute", "/v", false},
		{"relative", "/v", false},
		{"absolute/data", "/v/data", false},
		{"../" + filepath.Base(outside), "/v", false},
		{"dir", "/root", false},
		{"dir", "/proc/self/root", false},
	} {
		s := rootSpec(lower, "cat /v/data; (echo x > /v/data) 2>/dev/null || echo read-only")
		s.ID.Attempt = i
		s.Root.Mounts = []Mount{{Source: volume, Sub: test.sub, Target: test.target, ReadOnly: true}}
		run, err := r.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if (run.Exit == nil) != test.ok {
			t.Errorf("%s at %s: got %+v", test.sub, test.target, run.Exit)
		}
		wait(s.ID)
		if got := output(t, r, s.ID); test.ok && got != "of the volume\nread-only\n" || !test.ok && got != "" {
			t.Errorf("%s at %s: the container has printed %q", test.sub, test.target, got)
		}
	}
}

// TestRootDevices changes the mode of a device, whose file is that of the machine. If the test runs
// as root, its owner is the user of the container.
func TestRootDevices(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	s := rootSpec(imageWithShell(t, "/bin/chmod"), "for d in null zero full random urandom; do chmod 666 /dev/$d 2>/dev/null && echo changed $d; done; echo text > /dev/null && echo end")
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
	if got := output(t, r, s.ID); got != "end\n" {
		t.Errorf("the container has printed %q, want end", got)
	}
}

const keyVariable = "KAPOK_TEST_KEY" // the name of a key, for which this program looks

func init() {
	if name := os.Getenv(keyVariable); name != "" {
		_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", name, 0)
		fmt.Println("key:", err)
		os.Exit(0)
	}
}

// TestRootKeys has a key in the keyring of its session: the container and its commands do not see
// it.
func TestRootKeys(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	runtime.LockOSThread() // a keyring is that of a thread, which is not used again
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	name := "kapok-test-" + rand.Text()
	if _, err := unix.AddKey("user", name, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Skip(err)
	}
	look := exec.Command(self())
	look.Env = []string{keyVariable + "=" + name}
	if out, err := look.CombinedOutput(); err != nil || string(out) != "key: <nil>\n" {
		t.Fatalf("a process without a root directory: %s, %v", out, err)
	}
	command := keyVariable + "=" + name + " " + self()
	s := rootSpec(imageWithShell(t, self()), command+"; echo ready; read line")
	s.Stdin = true
	startReady(t, r, s)
	var b bytes.Buffer
	if err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", command}, Streams{Out: &b}); err != nil {
		t.Fatal(err)
	}
	const want = "key: required key not available\n"
	if log := output(t, r, s.ID); log != want+"ready\n" || b.String() != want {
		t.Errorf("the container has printed %q, and a command %q, want %q", log, &b, want)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
}

// TestRootInheritedFiles has a directory of the machine and a pipe open, as the program that starts
// Kapok may have, and Kapok inherits: containers and their commands do not.
func TestRootInheritedFiles(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	const high = 90 // which no other file has
	if err := errors.Join(unix.Dup2(dir, high), unix.Dup2(pipe[1], high+1)); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(high)
	defer unix.Close(high + 1)
	command := fmt.Sprintf("for fd in /proc/self/fd/*; do case $fd in */%d|*/%d) echo inherited $fd;; esac; done", high, high+1)
	s := rootSpec(imageWithShell(t), command+"; echo ready; read line")
	s.Stdin = true
	startReady(t, r, s)
	var b bytes.Buffer
	if err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", command}, Streams{Out: &b}); err != nil {
		t.Fatal(err)
	}
	if log := output(t, r, s.ID); log != "ready\n" || b.Len() > 0 {
		t.Errorf("the container has printed %q, and a command %q", log, &b)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
	s.ID.Attempt, s.Dir = 1, fmt.Sprintf("/proc/self/fd/%d", high)
	if run, err := r.Start(t.Context(), s); err != nil || run.Exit == nil || run.Exit.Reason != StartError {
		t.Errorf("a working directory that is inherited: got %+v, %v", run.Exit, err)
		_ = r.Kill(s.ID)
	}
	wait(s.ID)
}
