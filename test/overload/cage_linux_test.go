package overload

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuPeriod is the period of the limit on processor time, in microseconds. It is short, so that a
// server that has used its share pauses for milliseconds only, as these pauses are not to be
// measured.
const cpuPeriod = 10_000

// A group is a cage with one directory for each hierarchy of control groups: one in v2, two in v1.
type group struct {
	memory, cpu string // directories; equal in v2
}

// newCage returns a control group, or a replacement if none can be created.
func newCage(t *testing.T) cage {
	g, err := newGroup()
	if err != nil {
		t.Logf("no control group (%v): the server gets GOMAXPROCS=1 and GOMEMLIMIT=400MiB, and its memory is watched, not bounded", err)
		return runtimeLimits{}
	}
	return g
}

func newGroup() (_ *group, err error) {
	name := fmt.Sprintf("kapok-overload-%d", os.Getpid())
	g := &group{}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return g, g.makeV2(name)
	}
	return g, g.makeV1(name)
}

// own returns the control group of this process in a hierarchy; "" is v2's.
func own(controller string) (string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for one := range strings.SplitSeq(parts[1], ",") {
			if one == controller {
				return parts[2], nil
			}
		}
	}
	return "", fmt.Errorf("this process is in no control group of %q", controller)
}

// makeV1 creates a group below that of this process, whose limits still apply.
func (g *group) makeV1(name string) error {
	for _, h := range []struct {
		controller string
		dir        *string
	}{{"memory", &g.memory}, {"cpu", &g.cpu}} {
		path, err := own(h.controller)
		if err != nil {
			return err
		}
		dir := filepath.Join("/sys/fs/cgroup", h.controller, path, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		*h.dir = dir
	}
	return errors.Join(
		write(g.memory, "memory.limit_in_bytes", memoryLimit),
		write(g.cpu, "cpu.cfs_period_us", cpuPeriod),
		write(g.cpu, "cpu.cfs_quota_us", cpuPeriod),
		write(g.cpu, "cpu.shares", 262_144)) // a full core, whatever else runs on the machine
}

// makeV2 creates a group below the nearest ancestor that may have children with limits.
func (g *group) makeV2(name string) error {
	path, err := own("")
	if err != nil {
		return err
	}
	const root = "/sys/fs/cgroup"
	for {
		dir := filepath.Join(root, path)
		if err = g.makeBelow(dir, name); err == nil || path == "/" {
			return err
		}
		path = filepath.Dir(path)
	}
}

func (g *group) makeBelow(parent, name string) error {
	// This fails if the parent has processes of its own, and is unnecessary if its controllers are
	// enabled already.
	_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory +cpu"), 0o644)
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err := errors.Join(
		write(dir, "memory.max", memoryLimit),
		os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%d %d", cpuPeriod, cpuPeriod), 0o644))
	if err != nil {
		_ = os.Remove(dir)
		return err
	}
	_ = write(dir, "memory.swap.max", 0) // if there is swap
	_ = write(dir, "cpu.weight", 10_000) // a full core, whatever else runs on the machine
	g.memory, g.cpu = dir, dir
	return nil
}

func write(dir, file string, value int) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(value)), 0o644)
}

// start starts a shell inside the groups, which becomes the process.
func (g *group) start(c *exec.Cmd) error {
	script := `echo $$ > "$KAPOK_OVERLOAD_MEMORY/cgroup.procs" && echo $$ > "$KAPOK_OVERLOAD_CPU/cgroup.procs" && exec "$0" "$@"`
	c.Env = append(os.Environ(), "KAPOK_OVERLOAD_MEMORY="+g.memory, "KAPOK_OVERLOAD_CPU="+g.cpu)
	c.Args = append([]string{"sh", "-c", script, c.Path}, c.Args[1:]...)
	shell, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	c.Path = shell
	return preferred(c.Start)
}

func (g *group) floor() time.Duration { return 10 * time.Millisecond }

func (g *group) remove() {
	for _, dir := range []string{g.memory, g.cpu} {
		if dir != "" {
			_ = os.Remove(dir)
		}
	}
}

// preferred starts a process with a high priority, so that other load on the machine does not delay
// it. It needs root.
func preferred(start func() error) error {
	const normal, first = 0, -20
	runtime.LockOSThread() // priorities belong to threads, and are inherited from the thread that starts a process
	defer runtime.UnlockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, first); err == nil {
		defer syscall.Setpriority(syscall.PRIO_PROCESS, 0, normal)
	}
	return start()
}

var rssAnon = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// anonymous returns the anonymous memory of a process, in bytes; 0 after its end.
func anonymous(pid int) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	found := rssAnon.FindSubmatch(data)
	if found == nil {
		return 0
	}
	kilobytes, _ := strconv.ParseUint(string(found[1]), 10, 64)
	return kilobytes << 10
}
