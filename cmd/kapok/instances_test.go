package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"

	"k8s.io/client-go/tools/clientcmd"
)

// newUserShell is a shell of a user without a server, in an empty home directory, who stops all
// instances in the end.
func newUserShell(t *testing.T) *shell {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	s := newShell(t, "")
	s.env = append(s.env, "XDG_DATA_HOME="+filepath.Join(s.home, "data"))
	t.Cleanup(func() {
		home := instance.Home{Dir: filepath.Join(s.home, "data", "kapok")}
		all, err := home.List()
		if err != nil {
			t.Error(err)
		}
		for _, i := range all {
			_ = i.Stop(t.Context(), true)
		}
	})
	return s
}

// must runs a command that succeeds, and returns its output.
func (s *shell) must(args string) string {
	s.Helper()
	code, stdout, stderr := s.kapok("", args)
	if code != 0 {
		s.Fatalf("kapok %s: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// fails runs a command that fails with a message.
func (s *shell) fails(args, want string) {
	s.Helper()
	if code, stdout, stderr := s.kapok("", args); code != exitFailure || !strings.Contains(stderr, want) {
		s.Errorf("kapok %s: exit code %d, want %d and %q\n%s%s", args, code, exitFailure, want, stdout, stderr)
	}
}

func (s *shell) selected() string {
	s.Helper()
	config, err := clientcmd.LoadFromFile(filepath.Join(s.home, ".kube", "config"))
	if os.IsNotExist(err) {
		return "no file"
	}
	if err != nil {
		s.Fatal(err)
	}
	return config.CurrentContext
}

const upInBackground = " --detach --listen 127.0.0.1:0"

// Two instances from their start to their deletion, as their user sees them.
func TestInstances(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	if out := s.must("list"); !strings.HasPrefix(out, "There are no instances") {
		t.Errorf("list without instances: %s", out)
	}
	if out := s.must("up one" + upInBackground); !strings.Contains(out, "context  kapok-one, selected in "+s.home) || !strings.Contains(out, "kapok stop one") {
		t.Errorf("up one --detach: %s", out)
	}
	s.fails("up one --listen 127.0.0.1:0", "instance one is already running at https://127.0.0.1:")
	s.fails("up one"+upInBackground, "instance one is already running at https://127.0.0.1:")
	if got := s.selected(); got != "kapok-one" {
		t.Errorf("selected: %s", got)
	}
	s.must("kubectl create namespace shop") // the only one that runs
	if out := s.must("snapshot save backup"); !strings.HasPrefix(out, "Saved ") {
		t.Errorf("snapshot save: %s", out)
	}
	s.must("why namespace/shop")
	s.must("node token list")
	s.must("user add alice --output alice")

	s.must("up two --no-context" + upInBackground)
	if got := s.selected(); got != "kapok-one" {
		t.Errorf("with two, which has no context, %s is selected", got)
	}
	s.fails("doctor", "several instances run: one, two: choose one with --instance")
	s.must("doctor --instance two")
	if out := s.must("kubectl --instance one get namespace shop two -o name --ignore-not-found"); out != "namespace/shop\n" {
		t.Errorf("kubectl --instance one: %s", out)
	}
	if out := s.must("kubectl --instance=two get namespace shop -o name --ignore-not-found"); out != "" {
		t.Errorf("kubectl --instance=two: %s", out)
	}
	s.fails("kubectl --instance three get ns", "instance three does not exist")
	if out := s.must("kubectl --context kapok-one get namespace shop -o name"); out != "namespace/shop\n" {
		t.Errorf("kubectl --context kapok-one: %s", out)
	}

	var views []instanceView
	if err := json.Unmarshal([]byte(s.must("list -o json")), &views); err != nil || len(views) != 2 || views[0].State != stateRunning || views[1].Name != "two" {
		t.Errorf("list -o json: %+v, %v", views, err)
	}
	if out := s.must("status one"); !strings.Contains(out, "state        running\n") || !strings.Contains(out, "context      kapok-one\n") {
		t.Errorf("status one: %s", out)
	}
	s.fails("delete one", "instance one is running")
	if out := s.must("stop one"); out != "Instance one has stopped.\n" {
		t.Errorf("stop one: %s", out)
	}
	s.fails("stop one", "instance one is not running")
	s.fails("status one", "instance one is not running")
	s.fails("doctor --instance one", "instance one is not running: start it with kapok up one")
	if out := s.must("logs one --tail 1"); !strings.HasPrefix(out, "Stopping.") || strings.Count(out, "\n") != 1 {
		t.Errorf("logs one --tail 1: %q", out)
	}
	s.must("doctor") // of two, which is the only one again

	s.must("up one" + upInBackground)
	s.must("kubectl --instance one get namespace shop")
	s.must("delete one --force")
	if got := s.selected(); got != "" {
		t.Errorf("after the deletion %s is selected", got)
	}
	if out := s.must("list"); strings.Contains(out, "one") {
		t.Errorf("list after the deletion: %s", out)
	}
	if exists(filepath.Join(s.home, "data", "kapok", "instances", "one")) {
		t.Error("the directory outlives the instance")
	}
	if out := s.must("__complete delete "); !strings.Contains(out, "\ntwo\n") {
		t.Errorf("completion of instances: %s", out)
	}
	if out := s.must("__complete doctor --instance "); !strings.HasPrefix(out, "two\n") {
		t.Errorf("completion of --instance: %s", out)
	}
}

// The data directory of older versions is the instance default, with its objects.
func TestDefaultInstance(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	dir := filepath.Join(s.home, "data", "kapok")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	before := launch(t, "up", "--listen=127.0.0.1:0", "--data-dir", dir) // as without instances
	before.ready(t, kubeconfig)
	s.must("kubectl create namespace old")
	if out := s.must("list"); !strings.Contains(out, "default   running") {
		t.Errorf("list: %s", out)
	}
	s.fails("stop", "a server that was not started as instance default runs on "+dir)
	s.fails("delete default --force", "a server that was not started as instance default runs on "+dir)
	s.fails("up"+upInBackground, "instance default did not start")
	before.Process.Signal(os.Interrupt)
	before.end(t)

	s.must("up" + upInBackground)
	if out := s.must("kubectl get namespace old -o name"); out != "namespace/old\n" {
		t.Errorf("the namespace: %s", out)
	}
	// The instance is the server of the file that scripts wait for.
	if out := s.must("kubectl --kubeconfig " + kubeconfig + " get namespace old -o name"); out != "namespace/old\n" {
		t.Errorf("the namespace: %s", out)
	}
	s.must("up other" + upInBackground)
	s.must("stop")
	s.must("delete default")
	if out := s.must("kubectl get namespace old -o name --ignore-not-found"); out != "" { // of other
		t.Errorf("the namespace in another instance: %s", out)
	}
	if out := s.must("list"); strings.Contains(out, "default") || !strings.Contains(out, "other") {
		t.Errorf("list: %s", out)
	}
}

// A killed instance is stopped, whatever it left behind, and starts again.
func TestKilledInstance(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	s.must("up one" + upInBackground)
	s.must("kubectl create namespace shop")
	s.must("stop one --force")
	i := instance.Instance{Name: "one", Dir: filepath.Join(s.home, "data", "kapok", "instances", "one")}
	if !exists(filepath.Join(i.Dir, "kubeconfig")) {
		t.Fatal("the kubeconfig is gone: the process was not killed")
	}
	// Another process has the ID now.
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	r, err := i.Record()
	if err != nil {
		t.Fatal(err)
	}
	r.Process.ID = other.Process.Pid
	if err := i.Write(r); err != nil {
		t.Fatal(err)
	}
	if out := s.must("list"); !strings.Contains(out, "one    stopped") {
		t.Errorf("list: %s", out)
	}
	s.fails("stop one", "instance one is not running")
	s.fails("stop one --force", "instance one is not running")
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process: %v", err)
	}
	s.must("up one" + upInBackground)
	if out := s.must("kubectl get namespace shop -o name"); out != "namespace/shop\n" {
		t.Errorf("the namespace: %s", out)
	}
}

// Of several starts at once, one wins, and the others say so.
func TestStartsAtOnce(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	const starts = 3
	codes, said := make([]int, starts), make([]string, starts)
	var all sync.WaitGroup
	for i := range starts {
		all.Go(func() {
			var stdout, stderr string
			codes[i], stdout, stderr = s.kapok("", "up one"+upInBackground)
			said[i] = stdout + stderr
		})
	}
	all.Wait()
	slices.Sort(codes)
	if !slices.Equal(codes, []int{0, 1, 1}) {
		t.Errorf("exit codes %v\n%s", codes, strings.Join(said, "\n"))
	}
	for _, text := range said {
		if strings.HasPrefix(text, "kapok: ") && !strings.Contains(text, "already running") && !strings.Contains(text, "did not start") {
			t.Errorf("it says %s", text)
		}
	}
	s.must("doctor")
}

// A folder with kapok.yaml has an instance, which commands in and below it find.
func TestProjectInstance(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	root := s.home
	one, two := filepath.Join(root, "one", "shop"), filepath.Join(root, "two", "shop")
	for _, dir := range []string{filepath.Join(one, "config"), two} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{one, two} {
		write(t, filepath.Join(dir, "kapok.yaml"), "")
	}
	s.must("up" + upInBackground) // in the home directory
	s.home = one
	s.must("up" + upInBackground)
	s.home = two
	s.fails("doctor", "the instance of the project "+two+" is not running: start it with kapok up")
	s.must("up" + upInBackground)
	s.must("kubectl create namespace of-two")
	s.home = filepath.Join(one, "config")
	if out := s.must("kubectl get namespace of-two -o name --ignore-not-found"); out != "" {
		t.Errorf("the namespace of another checkout: %s", out)
	}
	if out := s.must("status"); !strings.Contains(out, "instance     shop-") || !strings.Contains(out, "project      "+one+"\n") {
		t.Errorf("status: %s", out)
	}
	s.must("stop")
	s.home = root
	s.must("doctor --instance default")
	if out := s.must("list"); strings.Count(out, "running") != 2 || strings.Count(out, "stopped") != 1 || !strings.Contains(out, two) {
		t.Errorf("list: %s", out)
	}
}

// A kubeconfig that is damaged stays as it is, and the server starts.
func TestDamagedKubeconfig(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	file := filepath.Join(s.home, ".kube", "config")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file, "clusters: [")
	out := s.must("up one" + upInBackground)
	if !strings.Contains(out, "Warning: context kapok-one is not in "+file+": it is damaged") || strings.Contains(out, "selected in") {
		t.Errorf("up: %s", out)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "clusters: [" {
		t.Errorf("the file is %q, %v", data, err)
	}
	s.must("delete one --force")
}

// An instance in memory has a name, a context and no store.
func TestInstanceInMemory(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	s.must("up one --in-memory" + upInBackground)
	s.must("kubectl create namespace shop")
	if out := s.must("status one"); !strings.Contains(out, "store        memory\n") {
		t.Errorf("status: %s", out)
	}
	s.must("stop one")
	s.must("up one --in-memory" + upInBackground)
	if out := s.must("kubectl get namespace shop -o name --ignore-not-found"); out != "" {
		t.Errorf("the namespace: %s", out)
	}
}

// A server that does not start says why, and its log is the instance's.
func TestDetachedFails(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	s.fails("up one --detach --listen nonsense", `--listen is "nonsense"`)
	s.fails("up one --detach --listen nonsense", "instance one did not start")
	if out := s.must("logs one"); strings.Count(out, "kapok: ") != 2 {
		t.Errorf("logs one: %s", out)
	}
}

// The log of a server in a terminal is in its file, too, and --follow ends with the server.
func TestLogOfForeground(t *testing.T) {
	t.Parallel()
	s := newUserShell(t)
	p := launchIn(t, s, "up", "one", "--listen=127.0.0.1:0", "--log-level=debug")
	p.ready(t, filepath.Join(s.home, "data", "kapok", "instances", "one", "kubeconfig"))
	followed := make(chan string)
	go func() {
		_, stdout, _ := s.kapok("", "logs one --follow")
		followed <- stdout
	}()
	p.Process.Signal(os.Interrupt)
	p.end(t)
	select {
	case out := <-followed:
		if !strings.Contains(out, "level=DEBUG") {
			t.Errorf("logs --follow: %s", out)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("logs --follow does not end")
	}
}

func TestLastLines(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\n", 5, "a\nb\n"}, {"a\n", 0, ""}, {"", 3, ""}, {"\n\n\n", 1, "\n"},
		{strings.Repeat("x", 10_000) + "\n" + strings.Repeat("y", 10_000), 1, strings.Repeat("y", 10_000)},
	} {
		at, err := lastLines(strings.NewReader(tc.text), tc.n)
		if err != nil || tc.text[at:] != tc.want {
			t.Errorf("last %d lines of %.20q: %.20q, %v, want %.20q", tc.n, tc.text, tc.text[at:], err, tc.want)
		}
	}
}
