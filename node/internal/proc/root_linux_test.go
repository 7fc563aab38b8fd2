package proc

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// isolated opens a Runtime whose containers can have a root directory of their own, or skips the
// test if the system does not permit that.
func isolated(t *testing.T, dir string) (*Runtime, func(ID) Exit) {
	t.Helper()
	r, wait := open(t, dir)
	if err := r.Isolates(t.Context()); err != nil {
		// A command that needs the same permissions tells a system without them from a defect.
		lower := t.TempDir()
		script := "mkdir u w r; mount -t overlay o r -o lowerdir=.,upperdir=u,workdir=w,userxattr"
		c := exec.Command("unshare", "-Urmp", "--fork", "--mount-proc", "sh", "-c", script)
		c.Dir = lower
		if out, command := c.CombinedOutput(); command != nil {
			t.Skipf("this system does not permit root directories of containers: %v, %s", command, out)
		}
		t.Fatal(err)
	}
	return r, wait
}

// imageWithShell returns the directory of an image with the shell of this machine, some commands
// and others, with their libraries.
func imageWithShell(t *testing.T, others ...string) string {
	t.Helper()
	root := t.TempDir()
	copyTo := func(file string) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range append([]string{"/bin/sh", "/bin/cat", "/bin/sleep", "/bin/ls"}, others...) {
		copyTo(program)
		f, err := elf.Open(program)
		if err != nil {
			t.Skip(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				name := make([]byte, p.Filesz-1)
				if _, err := p.ReadAt(name, 0); err != nil {
					t.Fatal(err)
				}
				copyTo(string(name))
			}
		}
		f.Close()
		out, _ := exec.Command("ldd", program).Output() // fails for a static program
		for line := range strings.Lines(string(out)) {
			for _, word := range strings.Fields(line) {
				if strings.HasPrefix(word, "/") && strings.Contains(word, ".so") {
					copyTo(word)
				}
			}
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("of the image\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// output returns the log of a run, without times.
func output(t *testing.T, r *Runtime, id ID) string {
	t.Helper()
	log := ""
	for line := range strings.Lines(readText(t, r.path(r.LogPath(id)))) { // it exists when there is output
		if words := strings.SplitN(line, " ", 4); len(words) == 4 {
			log += words[3]
		}
	}
	return log
}

func rootSpec(lower, script string) Spec {
	return Spec{
		ID: ID{"pod", "c", 0}, Args: []string{"sh", "-c", script}, Dir: "/work", Env: []string{"PATH=/bin:/usr/bin"},
		Root: &Root{Lower: lower, Hostname: "own"},
	}
}

// TestRoot runs a container with a root directory of its own, and looks at what it sees.
func TestRoot(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	lower, volume := imageWithShell(t), t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(volume, "data"), []byte("of the volume\n"), 0o644), os.Symlink("/work", filepath.Join(lower, "link"))); err != nil {
		t.Fatal(err)
	}
	s := rootSpec(lower, `
echo pid $$; pwd; read name < /proc/sys/kernel/hostname; echo $name
read line < /file; echo $line; echo changed > /file; read line < /file; echo $line
read line < /link/sub/volume/data; echo $line; echo new > /work/sub/volume/new; (echo bad > /ro/data) 2>/dev/null || echo read-only
read line < /single; echo $line; (echo x > /dev/null) && echo null; ls /; ls /proc/1/task
while read name value; do case $name in Uid:|Gid:|CapEff:|CapBnd:) echo $name $value;; esac; done < /proc/self/status
(: < /etc/passwd) 2>/dev/null || echo no passwd; kill -0 -1 2>/dev/null; echo end`)
	s.Root.Mounts = []Mount{
		{Source: volume, Target: "/link/sub/volume"}, {Source: volume, Target: "/ro", ReadOnly: true},
		{Source: filepath.Join(volume, "data"), Target: "/single"}, {Source: "/absent", Target: "/absent", Optional: true},
	}
	s.Root.UID, s.Root.GID = 1234, 4321
	if run, err := r.Start(t.Context(), s); err != nil || run.Exit != nil {
		t.Fatalf("got %+v, %v", run.Exit, err)
	}
	if e := wait(s.ID); e.Code != 0 {
		t.Errorf("the end is %+v", e)
	}
	got := output(t, r, s.ID)
	for _, want := range []string{
		"pid 1\n/work\nown\nof the image\nchanged\nof the volume\nread-only\nof the volume\nnull\n", "Uid: 1234", "Gid: 4321", "CapEff: 0000000000000000", "no passwd\n", "end\n",
		"bin\n", "single\n", "\n1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the container has printed\n%s\nwant %q", got, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(lower, "file")); err != nil || string(text) != "of the image\n" {
		t.Errorf("the image has been changed: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(volume, "new")); err != nil {
		t.Error(err)
	}
	if err := r.Remove("pod"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.path(s.ID.dir())); err == nil {
		t.Error("the files of the run are left")
	}
}

// TestRootCapabilities checks that root in a container has the permissions of other runtimes only,
// in the container and in commands.
func TestRootCapabilities(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	s := rootSpec(imageWithShell(t), `while read name value; do case $name in CapEff:|CapBnd:|NoNewPrivs:) echo $name $value;; esac; done < /proc/self/status; echo ready; read line`)
	s.Stdin, s.Root.ReadOnly, s.Root.NoNewPrivileges = true, true, true
	if run, err := r.Start(t.Context(), s); err != nil || run.Exit != nil {
		t.Fatalf("got %+v, %v", run.Exit, err)
	}
	log := ""
	for limit := time.Now().Add(time.Minute); !strings.Contains(log, "ready"); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the log is %q", log)
		}
		log = output(t, r, s.ID)
	}
	const bits = "00000000a80425fb" // those of Capabilities
	if want := "CapEff: " + bits + "\nCapBnd: " + bits + "\nNoNewPrivs: 1\nready\n"; log != want {
		t.Errorf("the container has %q, want %q", log, want)
	}
	var b, errs bytes.Buffer
	// Files of the kernel that have effects on the machine: without guards, a Kapok that runs as root
	// could write them.
	for _, c := range []string{": > /proc/sys/kernel/core_pattern", ": > /proc/sysrq-trigger", "cat /proc/kcore | read x", "cat /proc/keys | read x", "ls /proc/scsi/*"} {
		if err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", c}, Streams{}); err == nil {
			t.Errorf("%s: got no error", c)
		}
	}
	command := `echo $$; pwd; read name < /proc/sys/kernel/hostname; echo $name; while read name value; do case $name in CapEff:|NoNewPrivs:) echo $name $value;; esac; done < /proc/self/status; (echo x > /file) 2>/dev/null || echo read-only`
	if err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", command}, Streams{Out: &b, Err: &errs}); err != nil {
		t.Fatalf("%v, %s", err, &errs)
	}
	pid, rest, _ := strings.Cut(b.String(), "\n")
	if want := "/work\nown\nCapEff: " + bits + "\nNoNewPrivs: 1\nread-only\n"; rest != want || len(pid) > 3 || pid == "1" {
		t.Errorf("a command has %q, want a small process id and %q", &b, want)
	}
	var notFound *NotFoundError
	if err := r.Exec(t.Context(), s.ID, []string{"absent"}, Streams{}); !errors.As(err, &notFound) {
		t.Errorf("a command that does not exist: %v", err)
	}
	if err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", "exit 7"}, Streams{}); err == nil || err.Error() != (&ExitError{7}).Error() {
		t.Errorf("a command that fails: %v", err)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	if e := wait(s.ID); e.Signal != int(syscall.SIGKILL) {
		t.Errorf("the end is %+v, want signal 9", e)
	}
}

// TestDroppedCapabilities drops all but one capability of root.
func TestDroppedCapabilities(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	s := rootSpec(imageWithShell(t), `while read name value; do case $name in CapEff:|CapBnd:) echo $name $value;; esac; done < /proc/self/status`)
	for _, name := range Capabilities {
		if _, known := capabilityNumbers[name]; !known {
			t.Errorf("%s has no number", name)
		}
		if name != "KILL" {
			s.Root.Dropped = append(s.Root.Dropped, name)
		}
	}
	if run, err := r.Start(t.Context(), s); err != nil || run.Exit != nil {
		t.Fatalf("got %+v, %v", run.Exit, err)
	}
	wait(s.ID)
	const kill = "0000000000000020" // 1 << CAP_KILL
	if got, want := output(t, r, s.ID), "CapEff: "+kill+"\nCapBnd: "+kill+"\n"; got != want {
		t.Errorf("the container has %q, want %q", got, want)
	}
}

// TestRootFails starts containers that cannot start: each is a run that has ended with StartError,
// and leaves no process behind.
func TestRootFails(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	lower := imageWithShell(t)
	for i, test := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.Args = []string{"absent"} }, `exec: "absent": executable file not found in $PATH`},
		{func(s *Spec) { s.Args = []string{"/file"} }, "permission denied"},
		{func(s *Spec) { s.Root.Mounts = []Mount{{Source: "/absent", Target: "/x"}} }, "no such file or directory"},
		{func(s *Spec) { s.Root.Mounts = []Mount{{Source: "/etc/hosts", Target: "/bin"}} }, "mount"},
		{func(s *Spec) { s.Root.Lower = "/absent" }, "mount overlayfs"},
		{func(s *Spec) { s.Dir = "/file" }, "not a directory"},
	} {
		s := rootSpec(lower, "exit 0")
		s.ID.Attempt = i
		test.change(&s)
		run, err := r.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if run.Exit == nil || run.Exit.Reason != StartError || !strings.Contains(run.Exit.Message, test.want) {
			t.Errorf("case %d: got %+v, want %s", i, run.Exit, test.want)
			continue
		}
		wait(s.ID)
		if left := marked(t, s.ID); len(left) > 0 {
			t.Errorf("case %d: the processes %v are left", i, left)
		}
	}
}

// marked returns the processes of a run.
func marked(t *testing.T, id ID) (all []string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(Marker+"="+id.String()+"\x00")) {
			all = append(all, f)
		}
	}
	return all
}

// TestRootEnds kills the shim of a container with a root directory: all of its processes end.
func TestRootEnds(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	s := rootSpec(imageWithShell(t), "sleep 1000 & sleep 1000 & echo ready; wait")
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); !strings.Contains(output(t, r, s.ID), "ready"); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the container does not start")
		}
	}
	killWith(shimVariable + "=" + r.path(s.ID.dir()))
	if e := wait(s.ID); e.Reason != Lost {
		t.Errorf("the end is %+v, want %s", e, Lost)
	}
	if left := marked(t, s.ID); len(left) > 0 {
		t.Errorf("the processes %v are left", left)
	}
}
