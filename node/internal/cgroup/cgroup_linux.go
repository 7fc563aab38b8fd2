package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok/node/internal/thread"

	"golang.org/x/sys/unix"
)

// hierarchy is where systems mount control groups.
const hierarchy = "/sys/fs/cgroup"

// controllers are those that Limits need.
var controllers = []string{"memory", "cpu", "pids"}

// period is that of a CPU limit, in microseconds, as kubelets have it.
const period = 100_000

// minQuota is the least time in a period that the kernel accepts.
const minQuota = 1000

// A Parent is a group that has the groups of this process. Make one with Open.
type Parent struct {
	dirs        []string // one in version 2, one for each controller in version 1
	controllers []string // those that the system permits, in this order
	unified     bool
}

// Missing returns the controllers that the system does not permit: limits of theirs have no effect.
func (p *Parent) Missing() (all []string) {
	for _, c := range controllers {
		if !slices.Contains(p.controllers, c) {
			all = append(all, c)
		}
	}
	return all
}

// Open returns the parent of a name, which is made if it does not exist. The error says what is
// missing. In version 2, a process that is not root is moved to a group of its own below its group,
// which must have no other processes.
func Open(name string) (*Parent, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	own := map[string]string{} // the paths of the groups of this process, by controller; "" is version 2
	for line := range strings.Lines(string(data)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			for c := range strings.SplitSeq(parts[1], ",") {
				own[c] = parts[2]
			}
		}
	}
	var s unix.Statfs_t
	if unix.Statfs(hierarchy, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC {
		return openUnified(hierarchy, own[""], name)
	}
	return openSeparate(own, name)
}

// openUnified opens a parent of version 2.
func openUnified(root, own, name string) (*Parent, error) {
	base := filepath.Join(root, own)
	if os.Geteuid() == 0 {
		base = root
	}
	found, err := named(base, "cgroup.controllers")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the control group %s has none of the controllers %s", base, strings.Join(controllers, ", "))
	}
	dir := filepath.Join(base, name)
	if err := mkdir(dir); err != nil {
		return nil, fmt.Errorf("make a control group (as a user, start with systemd-run --user --scope -p Delegate=yes): %w", err)
	}
	if os.Geteuid() != 0 {
		if err := leave(base, dir); err != nil {
			return nil, err
		}
	}
	p := &Parent{dirs: []string{dir}, controllers: found, unified: true}
	return p, errors.Join(p.enable(base), p.enable(dir))
}

// enable enables the controllers for the groups in a group.
func (p *Parent) enable(group string) error {
	return write(group, "cgroup.subtree_control", "+"+strings.Join(p.controllers, " +"))
}

// leave moves this process out of a group that is to have others: it has processes or groups with
// limits.
func leave(base, dir string) error {
	data, err := os.ReadFile(filepath.Join(base, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(data)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return fmt.Errorf("the control group %s has other processes, such as %s (start with systemd-run --user --scope -p Delegate=yes)", base, pid)
		}
	}
	self := dir + "-self"
	if err := mkdir(self); err != nil {
		return err
	}
	return write(self, "cgroup.procs", "0")
}

// named returns the controllers that a file of a group names.
func named(group, file string) (found []string, err error) {
	data, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		return nil, err
	}
	has := strings.Fields(string(data))
	for _, c := range controllers {
		if slices.Contains(has, c) {
			found = append(found, c)
		}
	}
	return found, nil
}

// openSeparate opens a parent of version 1.
func openSeparate(own map[string]string, name string) (*Parent, error) {
	p := &Parent{}
	for _, c := range controllers {
		path, mounted := own[c]
		if !mounted {
			continue
		}
		dir := filepath.Join(hierarchy, c, path, name)
		if err := mkdir(dir); err != nil {
			return nil, fmt.Errorf("make a control group: %w", err)
		}
		p.dirs, p.controllers = append(p.dirs, dir), append(p.controllers, c)
	}
	if len(p.dirs) == 0 {
		return nil, fmt.Errorf("none of the controllers %s of control groups is mounted", strings.Join(controllers, ", "))
	}
	return p, nil
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// Close removes the parent, if it has no groups.
func (p *Parent) Close() error {
	var failed []error
	for _, dir := range p.dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Make makes a group with limits.
func (p *Parent) Make(name string, l Limits) (g Group, err error) {
	g.Unified = p.unified
	for _, parent := range p.dirs {
		dir := filepath.Join(parent, name)
		if err := p.mkdirIn(parent, dir); err != nil {
			return g, errors.Join(err, g.Remove())
		}
		g.Dirs = append(g.Dirs, dir)
	}
	for _, s := range l.settings(g.Unified) {
		at := slices.Index(p.controllers, s.controller)
		if at < 0 {
			continue
		}
		if g.Unified {
			at = 0
		}
		dir := g.Dirs[at]
		if err := write(dir, s.file, s.value); err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
			return g, errors.Join(err, g.Remove())
		}
	}
	return g, nil
}

// mkdirIn makes a group, and the parent if it was removed with its last group.
func (p *Parent) mkdirIn(parent, dir string) (err error) {
	for range makeTries { // another group may be the last one in between
		if err = mkdir(parent); err != nil {
			return err
		}
		if p.unified {
			err = p.enable(parent)
		}
		if err == nil {
			err = mkdir(dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

const makeTries = 10

// A setting is the value of a file of a group.
type setting struct {
	controller, file, value string
	optional                bool // the kernel may not have it
}

// settings returns the files of a group.
func (l Limits) settings(unified bool) (all []setting) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	quota := max(minQuota, l.CPU*period/1000)
	if l.Memory > 0 {
		if unified {
			// All processes of a container end together, as with a kubelet, and nothing
			// of it is swapped.
			all = append(all, setting{controller: "memory", file: "memory.max", value: number(l.Memory)},
				setting{controller: "memory", file: "memory.oom.group", value: "1", optional: true},
				setting{controller: "memory", file: "memory.swap.max", value: "0", optional: true})
		} else {
			all = append(all, setting{controller: "memory", file: "memory.limit_in_bytes", value: number(l.Memory)},
				setting{controller: "memory", file: "memory.memsw.limit_in_bytes", value: number(l.Memory), optional: true})
		}
	}
	if l.CPU > 0 {
		if unified {
			all = append(all, setting{controller: "cpu", file: "cpu.max", value: number(quota) + " " + number(period), optional: true})
		} else {
			all = append(all, setting{controller: "cpu", file: "cpu.cfs_period_us", value: number(period), optional: true},
				setting{controller: "cpu", file: "cpu.cfs_quota_us", value: number(quota), optional: true})
		}
	}
	if l.Shares > 0 {
		shares := min(max(2, l.Shares), 262144)
		if unified {
			all = append(all, setting{controller: "cpu", file: "cpu.weight", value: number(1 + (shares-2)*9999/262142)})
		} else {
			all = append(all, setting{controller: "cpu", file: "cpu.shares", value: number(shares)})
		}
	}
	if l.Pids > 0 {
		all = append(all, setting{controller: "pids", file: "pids.max", value: number(l.Pids)})
	}
	return all
}

// Start calls a function that starts a process with attributes, which is in the group from its
// start. The zero Group is that of this process.
func (g Group) Start(a *syscall.SysProcAttr, start func() error) error {
	if len(g.Dirs) == 0 {
		return start()
	}
	if g.Unified {
		d, err := os.Open(g.Dirs[0])
		if err != nil {
			return err
		}
		defer d.Close()
		a.UseCgroupFD, a.CgroupFD = true, int(d.Fd())
		return start()
	}
	// In version 1 a thread is in a group, and passes it on to the processes that it starts.
	var err error
	thread.Run(func() {
		if err = g.Join(); err == nil {
			err = start()
		}
	})
	return err
}

// Join moves this thread to the group, and the processes that it starts, in version 1. It cannot
// leave the group.
func (g Group) Join() error {
	if g.Unified {
		return nil
	}
	for _, dir := range g.Dirs {
		if err := write(dir, "tasks", "0"); err != nil {
			return err
		}
	}
	return nil
}

// OOMKills returns the number of processes of the group that the kernel has killed because its
// memory was used up.
func (g Group) OOMKills() int {
	if len(g.Dirs) == 0 {
		return 0
	}
	file := "memory.oom_control"
	if g.Unified {
		file = "memory.events"
	}
	f, err := os.Open(filepath.Join(g.Dirs[0], file)) // that of memory is the first one
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "oom_kill "); found {
			n, _ := strconv.Atoi(text)
			return n
		}
	}
	return 0
}

// removeLimit is the time in which a group becomes empty after the end of its processes.
const removeLimit = 5 * time.Second

// Remove removes the group, and its parent if that has no other ones. Its processes must have
// ended.
func (g Group) Remove() error {
	var failed []error
	for _, dir := range g.Dirs {
		var err error
		for limit, wait := time.Now().Add(removeLimit), time.Millisecond; ; wait *= 2 {
			err = os.Remove(dir)
			if !errors.Is(err, unix.EBUSY) || time.Now().Add(wait).After(limit) {
				break
			}
			time.Sleep(wait)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
			continue
		}
		_ = os.Remove(filepath.Dir(dir)) // fails if there are others
	}
	return errors.Join(failed...)
}
