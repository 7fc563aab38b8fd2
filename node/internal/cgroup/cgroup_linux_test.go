package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSettings compares the files of groups with those that a kubelet's runtime writes.
func TestSettings(t *testing.T) {
	l := Limits{Memory: 64 << 20, CPU: 250, Shares: 512, Pids: 10}
	for _, test := range []struct {
		limits  Limits
		unified bool
		want    string
	}{
		{l, true, "memory.max=67108864 memory.oom.group=1 memory.swap.max=0 cpu.max=25000 100000 cpu.weight=20 pids.max=10"},
		{l, false, "memory.limit_in_bytes=67108864 memory.memsw.limit_in_bytes=67108864 cpu.cfs_period_us=100000 cpu.cfs_quota_us=25000 cpu.shares=512 pids.max=10"},
		{Limits{CPU: 1}, true, "cpu.max=1000 100000"}, // the least that the kernel accepts
		{Limits{Shares: 1}, false, "cpu.shares=2"},
		{Limits{Shares: 1 << 30}, true, "cpu.weight=10000"},
		{Limits{}, true, ""},
	} {
		var all []string
		for _, s := range test.limits.settings(test.unified) {
			all = append(all, s.file+"="+s.value)
		}
		if got := strings.Join(all, " "); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.limits, got, test.want)
		}
	}
}

func TestOOMKills(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"memory.events": "low 0\noom 3\noom_kill 2\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, g := range map[int]Group{2: {Dirs: []string{dir}, Unified: true}, 1: {Dirs: []string{dir}}, 0: {}} {
		if got := g.OOMKills(); got != want {
			t.Errorf("%+v: got %d, want %d", g, got, want)
		}
	}
}

// TestUnified opens parents of version 2 in directories like those of the kernel.
func TestUnified(t *testing.T) {
	dir := t.TempDir()
	fill := func(dir, controllers string) {
		t.Helper()
		for name, text := range map[string]string{"cgroup.controllers": controllers + "\n", "cgroup.procs": "1\n", "cgroup.subtree_control": "", "pids.max": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(dir, "cpuset io")
	if _, err := openUnified(dir, "", "kapok"); err == nil || !strings.Contains(err.Error(), "has none of the controllers memory, cpu, pids") {
		t.Errorf("without controllers: %v", err)
	}
	if err := leave(dir, filepath.Join(dir, "kapok")); err == nil || !strings.Contains(err.Error(), "has other processes, such as 1") {
		t.Errorf("with another process: %v", err)
	}
	fill(dir, "cpuset io pids")
	parent := filepath.Join(dir, "kapok")
	if err := os.MkdirAll(filepath.Join(parent, "group"), 0o700); err != nil {
		t.Fatal(err)
	}
	fill(parent, "pids")
	fill(filepath.Join(parent, "group"), "")
	if os.Geteuid() != 0 { // this process leaves the group
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o600), os.Mkdir(parent+"-self", 0o700)); err != nil {
			t.Fatal(err)
		}
		fill(parent+"-self", "")
	}
	p, err := openUnified(dir, "", "kapok")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Missing(), " "); got != "memory cpu" {
		t.Errorf("missing are %q, want memory and cpu", got)
	}
	if _, err := p.Make("group", Limits{Memory: 1, CPU: 1, Shares: 1, Pids: 10}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cgroup.subtree_control": "+pids", "kapok/cgroup.subtree_control": "+pids", "kapok/group/pids.max": "10"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s: got %q, %v, want %q", name, data, err, want)
		}
	}
}

// TestGroup starts a process in a group, if the system permits one.
func TestGroup(t *testing.T) {
	p, err := Open("kapok-test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Skipf("this system does not permit control groups: %v", err)
	}
	g, err := p.Make("group", Limits{Memory: 1 << 30, CPU: 1000, Shares: 2, Pids: 20})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{}
	if err := g.Start(c.SysProcAttr, c.Start); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Dirs {
		for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // the thread that has joined it ends
			data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			if err == nil && strings.TrimSpace(string(data)) == strconv.Itoa(c.Process.Pid) {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s has the processes %q, %v, want %d", dir, data, err, c.Process.Pid)
			}
		}
	}
	if own, err := os.ReadFile("/proc/self/cgroup"); err != nil || strings.Contains(string(own), "/group") {
		t.Errorf("this process is in %s, %v", own, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if err := errors.Join(g.Remove(), g.Remove(), p.Close()); err != nil {
		t.Error(err)
	}
	for _, dir := range p.dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", dir, err)
		}
	}
}
