package instance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// hold makes the test binary a process that locks the instance of a directory until its input ends.
const hold = "KAPOK_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(hold); dir != "" {
		l, err := (Instance{"held", dir}).Lock()
		fmt.Println(err == nil)
		if err == nil {
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			l.Release()
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holder starts a process that holds the lock of an instance. It reports whether it got it.
func holder(t *testing.T, i Instance) (c *exec.Cmd, held bool) {
	t.Helper()
	c = exec.Command(os.Args[0])
	c.Env = append(os.Environ(), hold+"="+i.Dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, line == "true\n"
}

func named(t *testing.T, h Home, name string) Instance {
	t.Helper()
	i, err := h.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestNames(t *testing.T) {
	h := Home{"/home"}
	for name, want := range map[string]string{
		"default": "/home", "a": "/home/instances/a", "a-1": "/home/instances/a-1", strings.Repeat("a", 63): "/home/instances/" + strings.Repeat("a", 63),
		"": "", "../x": "", "a/b": "", "a.b": "", "A": "", "-a": "", "a-": "", ".": "", "..": "", "a\n": "", "api": "", "webhook": "", "a b": "", strings.Repeat("a", 64): "", "é": "",
	} {
		i, err := h.Named(name)
		if filepath.ToSlash(i.Dir) != want || (err == nil) != (want != "") {
			t.Errorf("%q: directory %q, %v, want %q", name, i.Dir, err, want)
		}
	}
}

func TestListAndDelete(t *testing.T) {
	h := Home{filepath.Join(t.TempDir(), "kapok")}
	names := func() (all []string) {
		t.Helper()
		list, err := h.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			all = append(all, i.Name)
		}
		return all
	}
	if got := names(); len(got) != 0 {
		t.Errorf("instances of an empty home: %q", got)
	}
	b, d := named(t, h, "b"), named(t, h, Default)
	if err := h.Delete(b); !errors.Is(err, ErrNotExist) {
		t.Errorf("deletion of an instance that does not exist: %v", err)
	}
	for _, dir := range []string{named(t, h, "a").Dir, b.Dir, filepath.Join(h.instances(), ".deleted-x-1", "journal"), filepath.Join(h.instances(), "Not A Name")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("without a default one: %q", got)
	}
	if err := os.MkdirAll(filepath.Join(d.Dir, "journal"), 0o700); err != nil { // as an older version leaves it
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{Default, "a", "b"}) {
		t.Errorf("with the default one: %q", got)
	}
	if err := h.Delete(b); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.instances(), ".deleted-*")); len(left) > 0 {
		t.Errorf("what an interrupted deletion left is still there: %q", left)
	}
	if err := h.Delete(d); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after the deletion of b and default: %q", got)
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "journal")); err == nil {
		t.Error("the journal of the default instance is still there")
	}
}

// A lock ends with its process, however that ends, and tells which process it is.
func TestLockOfOtherProcess(t *testing.T) {
	h := Home{t.TempDir()}
	i := named(t, h, "a")
	if _, locked := i.Locked(); locked {
		t.Error("an instance that does not exist is locked")
	}
	p, held := holder(t, i)
	if !held {
		t.Fatal("the first process does not get the lock")
	}
	if _, held := holder(t, i); held {
		t.Error("a second process gets the lock")
	}
	if _, err := i.Lock(); !errors.Is(err, ErrRunning) {
		t.Errorf("Lock: %v, want ErrRunning", err)
	}
	if err := h.Delete(i); !errors.Is(err, ErrRunning) {
		t.Errorf("Delete: %v, want ErrRunning", err)
	}
	// The record is of an earlier process, whose ID another one has now: this test.
	if err := i.Write(Record{Process: &Process{ID: os.Getpid(), Started: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	if id, locked := i.Locked(); id != p.Process.Pid || !locked {
		t.Errorf("locked %v by process %d, want %d", locked, id, p.Process.Pid)
	}
	if err := i.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, locked := i.Locked(); locked {
		t.Error("the lock outlives its process")
	}
	if err := i.Stop(t.Context(), true); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Stop: %v, want ErrNotRunning", err)
	}
	if err := h.Delete(i); err != nil {
		t.Error(err)
	}
}

// A lock on a file that a deletion has moved away is no lock on the instance.
func TestLockOfDeleted(t *testing.T) {
	i := named(t, Home{t.TempDir()}, "a")
	l, err := i.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if !l.inPlace() {
		t.Error("a new lock is not in place")
	}
	if err := os.Remove(filepath.Join(i.Dir, lockFile)); err != nil {
		t.Skip(err) // Windows removes no open files
	}
	if l.inPlace() {
		t.Error("the lock on a removed file is in place")
	}
}

func TestPorts(t *testing.T) {
	h := Home{t.TempDir()}
	busy := map[int]bool{firstPort: true}
	free := func(port int) bool { return !busy[port] }
	take := func(name string, want int) {
		t.Helper()
		i := named(t, h, name)
		if err := os.MkdirAll(i.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		r, err := i.Record()
		if err != nil {
			t.Fatal(err)
		}
		port, err := h.takePort(t.Context(), i, &r, free)
		if after, _ := i.Record(); err != nil || port != want || r.Port != want || after.Port != want {
			t.Errorf("instance %s has port %d, %v, and remembers %d, want %d", name, port, err, after.Port, want)
		}
	}
	take("a", firstPort+1)
	take("b", firstPort+2) // that of a is free, but remembered
	take("a", firstPort+1)
	busy[firstPort+1] = true
	take("a", firstPort+3)
	busy = map[int]bool{}
	take("a", firstPort+3)
	take(Default, firstPort)
	i := named(t, h, "b")
	if _, err := h.takePort(t.Context(), i, &Record{}, func(int) bool { return false }); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("no port is free: %v", err)
	}
}

func TestDamagedRecord(t *testing.T) {
	i := Instance{"a", t.TempDir()}
	if r, err := i.Record(); err != nil || r.Port != 0 {
		t.Errorf("no record: %+v, %v", r, err)
	}
	file := filepath.Join(i.Dir, recordFile)
	if err := os.WriteFile(file, []byte(`{"port": 64`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Record(); err == nil || !strings.HasPrefix(err.Error(), file+" is damaged") {
		t.Errorf("a record that ends early: %v", err)
	}
	if want := filepath.Join(i.Dir, "kubeconfig"); i.Kubeconfig() != want {
		t.Errorf("kubeconfig %s, want %s", i.Kubeconfig(), want)
	}
}

// Two checkouts of a project have two instances, and each folder of a checkout has the same.
func TestProjects(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(root, "one", "My Shop_2"), filepath.Join(root, "two", "My Shop_2")
	below := filepath.Join(one, "config", "crd")
	for _, dir := range []string{below, two} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := FindProject(below); p != nil || err != nil {
		t.Skipf("the directory of temporary files is in a project: %v, %v", p, err)
	}
	for _, dir := range []string{one, two} {
		if err := os.WriteFile(filepath.Join(dir, ProjectFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := func(dir string) string {
		t.Helper()
		p, err := FindProject(dir)
		if err != nil || p == nil {
			t.Fatalf("project of %s: %v, %v", dir, p, err)
		}
		named(t, Home{root}, p.Name())
		return p.Name()
	}
	first := name(one)
	if !strings.HasPrefix(first, "my-shop-2-") || name(below) != first || name(two) == first {
		t.Errorf("instances %s, %s below it, and %s of another checkout", first, name(below), name(two))
	}
	if err := os.Symlink(one, filepath.Join(root, "link")); err == nil && name(filepath.Join(root, "link")) != first {
		t.Errorf("through a link the instance is %s, want %s", name(filepath.Join(root, "link")), first)
	}
	for _, odd := range []string{"ünï", "..", strings.Repeat("x", 200), "-", "é"} {
		named(t, Home{root}, (&Project{Dir: filepath.Join("/", "a", odd)}).Name())
	}
}
