package proc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes this process the parent of all descendants whose parents end.
func becomeSubreaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killDescendants kills all children of this process until none is left. As this process is a
// subreaper, the children of those that are killed become its own.
func killDescendants() {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left := 0
		for pid, s := range processes() {
			if s.parent == os.Getpid() && s.state != "Z" {
				left++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(wait)
	}
}

// process is a line of /proc/PID/stat.
type process struct {
	state  string
	parent int
	birth  string
}

func statOf(pid int) (p process, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	// The name of the program is in brackets, and may have brackets and spaces itself.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return p, false
	}
	p.state, p.birth = fields[0], fields[19]
	p.parent, err = strconv.Atoi(fields[1])
	return p, err == nil
}

func processes() map[int]process {
	all := map[int]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := statOf(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// Usage returns what the containers use that run: their first processes, and all descendants.
func (r *Runtime) Usage() map[ID]Usage {
	parents := map[int][]int{} // of processes
	for pid, p := range processes() {
		parents[p.parent] = append(parents[p.parent], pid)
	}
	type begun struct {
		ID
		started
	}
	var containers []begun
	r.mu.Lock()
	for _, runs := range r.runs {
		for _, l := range runs {
			if l.Exit == nil && l.begin.Pid > 0 {
				containers = append(containers, begun{l.ID, l.begin})
			}
		}
	}
	r.mu.Unlock()
	all := map[ID]Usage{}
	for _, c := range containers {
		main, ok := statOf(c.Pid)
		if !ok || main.birth != c.Birth {
			continue
		}
		// Commands of exec are children of the shim, as the container is.
		first := []int{c.Pid}
		if main.parent > 1 {
			first = parents[main.parent]
		}
		u := usageOf(first, parents)
		u.Started = c.Time
		all[c.ID] = u
	}
	return all
}

// usageOf returns what processes and their descendants use.
func usageOf(pids []int, parents map[int][]int) (u Usage) {
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) < 22 {
			continue
		}
		for _, at := range []int{11, 12, 13, 14} { // user and system time, of the process and of children that have ended
			ticks, _ := strconv.ParseInt(fields[at], 10, 64)
			u.CPU += time.Duration(ticks) * time.Second / ticksPerSecond
		}
		pages, _ := strconv.ParseInt(fields[21], 10, 64)
		u.Memory += pages * int64(os.Getpagesize())
		below := usageOf(parents[pid], parents)
		u.CPU += below.CPU
		u.Memory += below.Memory
	}
	return u
}

// ticksPerSecond is the unit of times in /proc, which is the same on all systems.
const ticksPerSecond = 100

// birth returns the start time of a process, "" if there is none.
func birth(pid int) string {
	p, _ := statOf(pid)
	return p.birth
}

// killMarked kills all processes whose environment has the marker of a run, and returns when none
// is left.
func killMarked(id ID, _ started) { killWith(Marker + "=" + id.String()) }

// killShim kills the shim of a run, which does not respond.
func killShim(dir string, _ started) { killWith(shimVariable + "=" + dir) }

// killWith kills all processes with a variable in their environments, and returns when none is
// left.
func killWith(variable string) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left := 0
		for pid, p := range processes() {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err == nil && p.state != "Z" && pid != os.Getpid() && slices.Contains(strings.Split(string(env), "\x00"), variable) {
				left++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(wait)
	}
}

// ownMounts lets a process have mounts of its own, which its children share. Unless this process is
// root, it also has a user namespace, in which it may mount, with the same user: no other user
// exists in it, so that programs of other users, such as sudo, have no effect. Its programs have no
// permissions that others of this user have not.
func ownMounts(a *syscall.SysProcAttr) error {
	a.Cloneflags |= syscall.CLONE_NEWNS
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // in the namespace, until mountHosts has mounted
	}
	return nil
}

// mountHosts mounts a file at /etc/hosts. Other processes do not see it, but later mounts of theirs
// are seen here. It then gives up the permission to mount, for which the program of a user that is
// not root starts again.
func mountHosts(file string) error {
	runtime.LockOSThread() // permissions are those of a thread
	defer runtime.UnlockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: "/", Err: err}
	}
	if err := unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "mount", Path: "/etc/hosts", Err: err}
	}
	if os.Geteuid() == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if os.Getenv(shimVariable) == "" {
		return nil
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: executable, Err: syscall.Exec(executable, os.Args, os.Environ())}
}

// The path of a socket has at most 107 bytes, so it is named by the descriptor of its directory.

func listen(dir *os.Root) (*net.UnixListener, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	_ = dir.Remove(socketName)
	return net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName)})
}

func dial(dir *os.Root) (*net.UnixConn, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName)})
}
