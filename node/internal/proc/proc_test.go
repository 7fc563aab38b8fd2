//go:build linux || darwin

package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// programVariable selects what this binary does as the program of a container.
const programVariable = "KAPOK_TEST_PROGRAM"

func TestMain(m *testing.M) {
	Main()
	if words := strings.Fields(os.Getenv(programVariable)); len(words) > 0 {
		program(words)
	}
	goleak.VerifyTestMain(m)
}

func program(words []string) {
	switch words[0] {
	case "exit":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
		code, _ := strconv.Atoi(words[1])
		os.Exit(code)
	case "stubborn": // ignores TERM, and leaves processes behind in sessions of their own
		signal.Ignore(syscall.SIGTERM)
		for range 3 {
			child := exec.Command(self())
			child.Env = append(os.Environ(), programVariable+"=sleep")
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := child.Start(); err != nil {
				panic(err)
			}
			fmt.Println("child", child.Process.Pid)
		}
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "write":
		n, _ := strconv.Atoi(words[1])
		line := strings.Repeat("x", 99)
		for i := range n {
			fmt.Printf("%d %s\n", i, line)
		}
		os.Exit(0)
	case "cat":
		var all bytes.Buffer
		_, _ = all.ReadFrom(os.Stdin)
		fmt.Print(strings.ToUpper(all.String()))
		os.Exit(0)
	case "sleep":
		time.Sleep(time.Hour)
	case "busy": // with a child that uses the processor
		if len(words) == 1 {
			child := exec.Command(self())
			child.Env = append(os.Environ(), programVariable+"=busy child")
			if err := child.Start(); err != nil {
				panic(err)
			}
			fmt.Println("ready")
			time.Sleep(time.Hour)
		}
		memory := make([]byte, 64<<20)
		for i := 0; ; i++ {
			memory[i%len(memory)]++
		}
	case "listen": // at a port of all addresses, and sends a text to each client
		l, err := net.Listen("tcp", ":"+words[1])
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		for {
			c, err := l.Accept()
			if err != nil {
				panic(err)
			}
			fmt.Fprint(c, words[2])
			c.Close()
		}
	case "allocate": // more and more memory
		fmt.Println("ready")
		for {
			block := make([]byte, 1<<20)
			for i := range block {
				block[i] = 1
			}
			blocks = append(blocks, block)
		}
	case "fork": // as many processes as possible
		for n := 0; ; n++ {
			child := exec.Command(self())
			child.Env = append(os.Environ(), programVariable+"=sleep")
			if err := child.Start(); err != nil {
				fmt.Println(n, err)
				os.Exit(0)
			}
		}
	case "adopt": // a program that starts a container, and is killed
		r, err := Open(Options{Dir: words[1]})
		if err != nil {
			panic(err)
		}
		if _, err := r.Start(context.Background(), spec("pod", 0, "stubborn")); err != nil {
			panic(err)
		}
		fmt.Println("started")
		time.Sleep(time.Hour)
	}
	os.Exit(99)
}

var blocks [][]byte

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func spec(pod string, attempt int, program string) Spec {
	return Spec{
		ID: ID{Pod: pod, Container: "c", Attempt: attempt}, Path: self(), Args: []string{"program"}, Dir: os.TempDir(),
		Env: []string{programVariable + "=" + program},
	}
}

// open returns a Runtime, and a function that waits for the end of a run.
func open(t *testing.T, dir string) (*Runtime, func(ID) Exit) {
	t.Helper()
	changed := make(chan string, 100)
	r, err := Open(Options{Dir: dir, Changed: func(pod string) { changed <- pod }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(0) })
	return r, func(id ID) Exit {
		t.Helper()
		for {
			for _, run := range r.Runs(id.Pod) {
				if run.ID == id && run.Exit != nil {
					return *run.Exit
				}
			}
			<-changed
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// waitFor waits until a file has a text.
func waitFor(t *testing.T, name, text string) string {
	t.Helper()
	for {
		if all := readText(t, name); strings.Contains(all, text) {
			return all
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestExit(t *testing.T) {
	r, wait := open(t, t.TempDir())
	s := spec("pod", 0, "exit 3")
	run, err := r.Start(t.Context(), s)
	if err != nil || run.Pid == 0 {
		t.Fatalf("start: %+v, %v", run, err)
	}
	if e := wait(s.ID); e.Code != 3 || e.Signal != 0 {
		t.Errorf("the end is %+v, want code 3", e)
	}
	log := readText(t, r.path(r.LogPath(s.ID)))
	if !strings.Contains(log, " stdout F out\n") || !strings.Contains(log, " stderr F err\n") {
		t.Errorf("the log is %q", log)
	}
	if _, err := r.Start(t.Context(), s); err == nil {
		t.Error("an attempt was started twice")
	}
	if _, err := r.Start(t.Context(), spec("pod", 1, "exit 0")); err != nil {
		t.Error(err)
	}
	if _, err := r.Start(t.Context(), spec("../pod", 0, "exit 0")); err == nil {
		t.Error("a pod ../pod was accepted")
	}
}

func TestStartError(t *testing.T) {
	r, _ := open(t, t.TempDir())
	s := spec("pod", 0, "exit 0")
	s.Path = filepath.Join(t.TempDir(), "absent")
	run, err := r.Start(t.Context(), s)
	if err != nil || run.Exit == nil || run.Exit.Reason != StartError || run.Exit.Code != 128 {
		t.Errorf("start: %+v, %v", run.Exit, err)
	}
}

// childrenIn returns the process ids in a log.
func childrenIn(log string) (pids []int) {
	for line := range strings.Lines(log) {
		if _, text, ok := strings.Cut(line, " F child "); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(text))
			pids = append(pids, pid)
		}
	}
	return pids
}

// lives reports whether a process runs.
func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

func checkGone(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("the program has started no processes")
	}
	if runtime.GOOS != "linux" {
		t.Skip("macOS has no subreapers")
	}
	for _, pid := range pids {
		for lives(pid) && !isZombie(pid) {
			time.Sleep(5 * time.Millisecond) // it is being killed: a test that hangs fails
		}
	}
}

func isZombie(pid int) bool {
	return strings.Contains(readOrEmpty(fmt.Sprintf("/proc/%d/stat", pid)), ") Z ")
}

func readOrEmpty(name string) string {
	data, _ := os.ReadFile(name)
	return string(data)
}

// TestKill kills a container that ignores TERM, with processes in other sessions.
func TestKill(t *testing.T) {
	r, wait := open(t, t.TempDir())
	s := spec("pod", 0, "stubborn")
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	pids := childrenIn(waitFor(t, r.path(r.LogPath(s.ID)), "ready"))
	if err := r.Terminate(s.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	if e := wait(s.ID); e.Code != 137 || e.Signal != int(syscall.SIGKILL) {
		t.Errorf("the end is %+v, want signal 9", e)
	}
	checkGone(t, pids)
	if err := r.Remove("pod"); err != nil {
		t.Error(err)
	}
}

// TestLost kills the shim of a container.
func TestLost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	r, wait := open(t, t.TempDir())
	s := spec("pod", 0, "stubborn")
	run, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pids := append(childrenIn(waitFor(t, r.path(r.LogPath(s.ID)), "ready")), run.Pid)
	stat := strings.Fields(readText(t, fmt.Sprintf("/proc/%d/stat", run.Pid)))
	shim, _ := strconv.Atoi(stat[3])
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := wait(s.ID); e.Code != 137 || e.Reason != Lost {
		t.Errorf("the end is %+v, want %s", e, Lost)
	}
	checkGone(t, pids)
}

// TestAdopt kills the program that has started a container, and adopts the container.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	first := exec.Command(self())
	first.Env = append(os.Environ(), programVariable+"=adopt "+dir)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, len("started"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil {
		t.Error("two programs use a directory")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	r, wait := open(t, dir)
	runs := r.Runs("pod")
	if len(runs) != 1 || runs[0].Exit != nil || !lives(runs[0].Pid) {
		t.Fatalf("the runs are %+v, want one that lives", runs)
	}
	id := runs[0].ID
	if _, err := r.Start(t.Context(), spec("pod", 1, "exit 0")); err == nil {
		t.Error("the container was started a second time")
	}
	var buffer bytes.Buffer
	err = r.Exec(t.Context(), id, []string{"/bin/sh", "-c", "echo $KAPOK_CONTAINER"}, Streams{Out: &buffer})
	if err != nil || buffer.String() != "pod/c/0\n" {
		t.Errorf("exec in the adopted container: %q, %v", &buffer, err)
	}
	if err := r.Kill(id); err != nil {
		t.Fatal(err)
	}
	if e := wait(id); e.Signal != int(syscall.SIGKILL) {
		t.Errorf("the end is %+v, want signal 9", e)
	}
}

// TestAdoptStart adopts a container that has started after the files were read, and an attempt
// whose start had not begun.
func TestAdoptStart(t *testing.T) {
	dir := t.TempDir()
	first := exec.Command(self())
	first.Env = append(os.Environ(), programVariable+"=adopt "+dir)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, len("started"))); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	late := ID{Pod: "pod", Container: "c"}
	started := filepath.Join(dir, late.dir(), "started.json")
	if err := os.Remove(started); err != nil {
		t.Fatal(err)
	}
	// As Start leaves it when the program ends before the shim begins.
	early := spec("early", 0, "exit 7")
	path := filepath.Join(dir, early.ID.dir())
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(&early)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"lock": nil, "spec.json": data} {
		if err := os.WriteFile(filepath.Join(path, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	r, wait := open(t, dir)
	if runs := r.Runs("early"); len(runs) != 0 {
		t.Errorf("an attempt that did not begin is %+v", runs)
	}
	if _, err := r.Start(t.Context(), early); err != nil {
		t.Errorf("start the attempt again: %v", err)
	}
	if e := wait(early.ID); e.Code != 7 {
		t.Errorf("the end is %+v, want code 7", e)
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runs := r.Runs("pod")
		if len(runs) == 1 && !runs[0].Started.IsZero() && lives(runs[0].Pid) {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the runs are %+v, want one that has started", runs)
		}
	}
	if err := r.Kill(late); err != nil {
		t.Fatal(err)
	}
	wait(late)
}

// TestHosts gives a container an /etc/hosts of its own, but no permission to mount.
func TestHosts(t *testing.T) {
	dir := t.TempDir()
	r, wait := open(t, dir)
	if err := r.Mounts(t.Context()); err != nil {
		if out, err := exec.Command("unshare", "-Urm", "mount", "--bind", "/etc/hosts", "/etc/hosts").CombinedOutput(); err != nil {
			t.Skipf("this system does not permit mounts of a process: %v, %s", err, out)
		}
		t.Fatal(err)
	}
	before, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	s := spec("pod", 0, "exit 0")
	s.Path, s.Args = "/bin/sh", []string{"sh", "-c", "cat /etc/hosts; grep CapEff /proc/self/status; read line"}
	s.Hosts, s.Stdin = filepath.Join(dir, "own"), true
	if err := os.WriteFile(s.Hosts, []byte("192.0.2.1 own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := "192.0.2.1 own\nCapEff:\t"
	if os.Geteuid() != 0 {
		want += "0000000000000000\n"
	}
	log := ""
	for limit := time.Now().Add(time.Minute); !strings.Contains(log, "CapEff"); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the log is %q", log)
		}
		log = ""
		text, _ := os.ReadFile(r.path(r.LogPath(s.ID)))
		for line := range strings.Lines(string(text)) {
			if words := strings.SplitN(line, " ", 4); len(words) == 4 {
				log += words[3]
			}
		}
	}
	if !strings.HasPrefix(log, want) {
		t.Errorf("the container sees %q, want %q", log, want)
	}
	var buffer bytes.Buffer
	if err := r.Exec(t.Context(), s.ID, []string{"/bin/cat", "/etc/hosts"}, Streams{Out: &buffer}); err != nil || buffer.String() != "192.0.2.1 own\n" {
		t.Errorf("a command sees %q, %v", &buffer, err)
	}
	if after, err := os.ReadFile("/etc/hosts"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("/etc/hosts of the system is %q, %v, want %q", after, err, before)
	}
	if err := r.Kill(s.ID); err != nil {
		t.Fatal(err)
	}
	if e := wait(s.ID); e.Signal != int(syscall.SIGKILL) {
		t.Errorf("the end is %+v, want signal 9", e)
	}
}

// TestUsage measures a container whose child uses the processor, and memory.
func TestUsage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	r, _ := open(t, t.TempDir())
	for _, s := range []Spec{spec("busy", 0, "busy"), spec("idle", 0, "sleep")} {
		if _, err := r.Start(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	busy, idle := spec("busy", 0, "").ID, spec("idle", 0, "").ID
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all := r.Usage()
		if len(all) == 2 && all[busy].CPU > 2*all[idle].CPU+500*time.Millisecond && all[busy].Memory > 64<<20 && all[idle].Memory > 1<<20 && all[idle].Memory < 64<<20 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the usage is %+v", all)
		}
	}
	if err := r.Kill(busy); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); len(r.Usage()) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("after the end of a container, the usage is %+v", r.Usage())
		}
	}
}

func TestLogsAreBounded(t *testing.T) {
	r, wait := open(t, t.TempDir())
	s := spec("pod", 0, "write 2000")
	s.LogBytes, s.LogFiles = 20<<10, 3
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	wait(s.ID)
	total := int64(0)
	names, err := filepath.Glob(r.path(r.LogPath(s.ID)) + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if limit := 3 * (s.LogBytes + 200); total > limit || total < s.LogBytes {
		t.Errorf("%d files have %d bytes, want at most %d", len(names), total, limit)
	}
	all := readOrEmpty(r.path(r.LogPath(s.ID))) + readOrEmpty(r.path(r.LogPath(s.ID))+".1")
	if !strings.Contains(all, " F 1999 x") {
		t.Error("the last line is missing")
	}
}

func TestExec(t *testing.T) {
	r, _ := open(t, t.TempDir())
	s := spec("pod", 0, "sleep")
	s.Env = append(s.Env, "PATH=/usr/bin:/bin", "NAME=value")
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err := r.Exec(t.Context(), s.ID, []string{"sh", "-c", "cat; echo $NAME >&2; exit 4"}, Streams{In: strings.NewReader("in"), Out: &out, Err: &errs})
	if e := (*ExitError)(nil); !errors.As(err, &e) || e.Code != 4 || out.String() != "in" || errs.String() != "value\n" {
		t.Errorf("exec: %q, %q, %v", &out, &errs, err)
	}
	if err := r.Exec(t.Context(), s.ID, []string{"no-such-program"}, Streams{}); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("exec of a missing program: %v", err)
	}
	out.Reset()
	err = r.Exec(t.Context(), s.ID, []string{"sh", "-c", "kill -INT $$; echo ignored"}, Streams{Out: &out})
	if e := (*ExitError)(nil); !errors.As(err, &e) || e.Code != 128+int(syscall.SIGINT) {
		t.Errorf("a signal is ignored: %q, %v", &out, err)
	}
	out.Reset()
	err = r.Exec(t.Context(), s.ID, []string{"sh", "-c", "test -t 0 && test -t 1 && echo terminal"}, Streams{Out: &out, Terminal: true})
	if err != nil || out.String() != "terminal\r\n" {
		t.Errorf("exec with a terminal: %q, %v", &out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Exec(ctx, s.ID, []string{"sleep", "1000"}, Streams{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("exec beyond its context: %v", err)
	}
	if err := r.Exec(t.Context(), ID{"pod", "c", 7}, []string{"sh"}, Streams{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("exec in a container that does not exist: %v", err)
	}
}

func TestAttach(t *testing.T) {
	r, wait := open(t, t.TempDir())
	s := spec("pod", 0, "cat")
	s.Stdin, s.StdinOnce = true, true
	if _, err := r.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Attach(t.Context(), s.ID, Streams{In: strings.NewReader("hello"), Out: &out}); err != nil {
		t.Error(err)
	}
	if e := wait(s.ID); e.Code != 0 || out.String() != "HELLO" {
		t.Errorf("attach: %q, %+v", &out, e)
	}
}
