package proc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes this process the parent of all descendants whose parents end.
func becomeSubreaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killDescendants kills all children of this process until none is left. As this process is a subreaper,
// the children of those that are killed become its own.
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

// birth returns the start time of a process, "" if there is none.
func birth(pid int) string {
	p, _ := statOf(pid)
	return p.birth
}

// killMarked kills all processes whose environment has the marker of a run, and returns when none is left.
func killMarked(id ID, _ started) { killWith(Marker + "=" + id.String()) }

// killShim kills the shim of a run, which does not respond.
func killShim(dir string, _ started) { killWith(shimVariable + "=" + dir) }

// killWith kills all processes with a variable in their environments, and returns when none is left.
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
