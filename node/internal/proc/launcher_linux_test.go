package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/cgroup"
	"github.com/kapok-dev/kapok/node/internal/podnet"
)

var testNetwork = podnet.Options{Pods: netip.MustParsePrefix("10.77.0.0/16"), Services: netip.MustParsePrefix("127.96.0.0/12")}

// networked is isolated with a network of pods.
func networked(t *testing.T, dir string) (*Runtime, func(ID) Exit) {
	t.Helper()
	r, wait := isolated(t, dir)
	if _, err := r.Network(t.Context(), testNetwork); err != nil {
		t.Skipf("this system does not permit networks of pods: %v", err)
	}
	return r, wait
}

// listening is a container that listens at port 80 of a pod.
func listening(t *testing.T, lower, pod, address string) Spec {
	t.Helper()
	s := spec(pod, 0, "listen 80 "+pod)
	s.Dir, s.Root, s.Address = "/", &Root{Lower: lower}, netip.MustParseAddr(address)
	return s
}

// ask returns what a pod sends to a client of its port 80.
func ask(t *testing.T, r *Runtime, address string) (string, error) {
	t.Helper()
	f, err := r.Socket(t.Context(), podnet.Socket{Network: "tcp", Dial: netip.AddrPortFrom(netip.MustParseAddr(address), 80)})
	if err != nil {
		return "", err
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

// TestPodsListen lets two pods listen at one port of all addresses. When the launcher is killed,
// their containers are, and others can be started.
func TestPodsListen(t *testing.T) {
	r, wait := networked(t, t.TempDir())
	lower := imageWithShell(t, self())
	pods := map[string]string{"one": "10.77.0.2", "two": "10.77.0.3"}
	for pod, address := range pods {
		startReady(t, r, listening(t, lower, pod, address))
	}
	for pod, address := range pods {
		if got, err := ask(t, r, address); got != pod {
			t.Errorf("%s has sent %q, %v, want %q", address, got, err, pod)
		}
	}
	if _, err := ask(t, r, "10.77.0.9"); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("an address of no pod: %v, want no route", err)
	}
	killWith(launcherVariable + "=" + r.path(launcherDir))
	for pod := range pods {
		if e := wait(ID{Pod: pod, Container: "c"}); e.Signal != int(syscall.SIGKILL) {
			t.Errorf("the end is %+v, want signal 9", e)
		}
	}
	if _, err := r.Network(t.Context(), testNetwork); err != nil {
		t.Fatal(err)
	}
	s := listening(t, lower, "one", "10.77.0.2")
	s.ID.Attempt = 1
	startReady(t, r, s)
	if got, err := ask(t, r, "10.77.0.2"); got != "one" {
		t.Errorf("after the end of the launcher: got %q, %v", got, err)
	}
	if err := r.Leave(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, r, "10.77.0.2"); err == nil {
		t.Error("a pod that has left the network responds")
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
}

// TestOwnProgram has containers and commands whose program is /proc/self/exe, which is this program
// until that of the container begins.
func TestOwnProgram(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	lower := imageWithShell(t)
	for _, err := range []error{
		os.WriteFile(filepath.Join(lower, "script"), []byte("#! /proc/self/exe\n"), 0o755),
		os.WriteFile(filepath.Join(lower, "nested"), []byte("#!/script x\n"), 0o755),
		os.WriteFile(filepath.Join(lower, "shell"), []byte("#!/bin/sh\necho fine\n"), 0o755),
		os.Symlink("/proc/self/exe", filepath.Join(lower, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	programs := []string{"/proc/self/exe", "/proc/1/exe", "/script", "/nested", "/link", "/proc/thread-self/exe"}
	for i, program := range programs {
		s := rootSpec(lower, "")
		s.ID.Attempt, s.Args = i, []string{program}
		run, err := r.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if run.Exit == nil || run.Exit.Reason != StartError || !strings.Contains(run.Exit.Message, errOwnProgram.Error()) {
			t.Errorf("%s: got %+v, want %v", program, run.Exit, errOwnProgram)
		}
		wait(s.ID)
	}
	s := rootSpec(lower, "echo ready; read line")
	s.ID.Attempt, s.Stdin = len(programs), true
	startReady(t, r, s)
	for _, program := range []string{"/proc/self/exe", "/script", "/nested", "/link"} {
		var b bytes.Buffer
		if err := r.Exec(t.Context(), s.ID, []string{program}, Streams{Out: &b}); err == nil {
			t.Errorf("the command %s has written %q", program, &b)
		}
	}
	var b bytes.Buffer
	if err := r.Exec(t.Context(), s.ID, []string{"/shell"}, Streams{Out: &b}); err != nil || b.String() != "fine\n" {
		t.Errorf("a script: %q, %v", &b, err)
	}
	// The parent of the container is this program on a read-only mount, as the init was.
	main, _ := statOf(r.Runs(s.ID.Pod)[0].Pid)
	for _, run := range r.Runs(s.ID.Pod) {
		if run.Exit == nil {
			main, _ = statOf(run.Pid)
		}
	}
	if err := os.Chmod(fmt.Sprintf("/proc/%d/exe", main.parent), 0o755); !errors.Is(err, syscall.EROFS) {
		t.Errorf("change the program of the parent: %v, want a read-only file system", err)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
}

// TestLimits has containers that use more memory and processes than their limits.
func TestLimits(t *testing.T) {
	r, wait := open(t, t.TempDir())
	if err := r.Limit(); err != nil {
		t.Skipf("this system does not permit limits: %v", err)
	}
	hog := spec("hog", 0, "allocate")
	hog.Limits = cgroup.Limits{Memory: 64 << 20, CPU: 500, Shares: 100, Pids: 100}
	if _, err := r.Start(t.Context(), hog); err != nil {
		t.Fatal(err)
	}
	if e := wait(hog.ID); e.Code != 137 || e.Reason != OutOfMemory {
		t.Errorf("the end is %+v, want %s", e, OutOfMemory)
	}
	bomb := spec("bomb", 0, "fork")
	bomb.Limits.Pids = 60
	if _, err := r.Start(t.Context(), bomb); err != nil {
		t.Fatal(err)
	}
	wait(bomb.ID)
	if got := output(t, r, bomb.ID); !strings.Contains(got, "resource temporarily unavailable") && !strings.Contains(got, "failed to create new OS thread") {
		t.Errorf("the container has printed %q", got)
	}
	fine := spec("fine", 0, "exit 1")
	fine.Limits = hog.Limits
	if _, err := r.Start(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	if e := wait(fine.ID); e.Code != 1 || e.Reason != "" {
		t.Errorf("the end is %+v, want the code 1", e)
	}
	for _, run := range []ID{hog.ID, bomb.ID, fine.ID} {
		for _, dir := range r.Runs(run.Pod)[0].Group.Dirs {
			for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
					break
				}
				if time.Now().After(limit) {
					t.Fatalf("the control group %s is left behind", dir)
				}
			}
		}
	}
}

// unifiedGroup makes a control group of version 2 beside that of this process, or skips the test.
func unifiedGroup(t *testing.T) cgroup.Group {
	t.Helper()
	own := ""
	data, err := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		if path, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			own = path
		}
	}
	if err != nil || own == "" {
		t.Skipf("there are no control groups of version 2: %v", err)
	}
	for _, mount := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(mount, filepath.Dir(own), fmt.Sprintf("kapok-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("this user may not make control groups: %v", err)
		}
		g := cgroup.Group{Dirs: []string{dir}, Unified: true}
		t.Cleanup(func() { _ = os.Remove(dir) })
		return g
	}
	t.Skip("control groups of version 2 are not mounted")
	return cgroup.Group{}
}

// TestUnifiedGroup has a container whose processes, and those of commands, are in a group of
// version 2.
func TestUnifiedGroup(t *testing.T) {
	r, wait := isolated(t, t.TempDir())
	s := rootSpec(imageWithShell(t), "cat /proc/self/cgroup; echo ready; read line")
	s.Stdin, s.Group = true, unifiedGroup(t)
	startReady(t, r, s)
	name := filepath.Base(s.Group.Dirs[0]) + "\n"
	if got := output(t, r, s.ID); !strings.Contains(got, name) {
		t.Errorf("the container is in %s, want %s", got, name)
	}
	var b bytes.Buffer
	if err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", "read line; cat /proc/self/cgroup"}, Streams{In: strings.NewReader("go\n"), Out: &b}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), name) {
		t.Errorf("a command is in %s, want %s", &b, name)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
	if _, err := os.Stat(s.Group.Dirs[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is left behind: %v", err)
	}
}
