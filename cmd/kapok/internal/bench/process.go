package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// processes are the ids of the server's processes.
type processes []int

// A use is the total use of several processes.
type use struct {
	cpu               time.Duration // with a resolution of 10 ms
	rssAnon, rssFiles int64         // bytes
}

// use reads the use of all processes from /proc.
func (p processes) use() (use, error) {
	var all use
	for _, pid := range p {
		cpu, err := processorTime(pid)
		if err != nil {
			return use{}, err
		}
		anon, files, err := resident(pid)
		if err != nil {
			return use{}, err
		}
		all.cpu += cpu
		all.rssAnon += anon
		all.rssFiles += files
	}
	return all, nil
}

func readProc(pid int, file string) ([]byte, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	return data, err
}

// processorTime returns the user and system time in /proc/PID/stat, see proc_pid_stat(5).
func processorTime(pid int) (time.Duration, error) {
	data, err := readProc(pid, "stat")
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, can contain spaces.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return time.Duration(user+system) * (time.Second / 100), nil // USER_HZ is 100 on all architectures of Linux
}

// resident returns the resident memory in /proc/PID/status, anonymous and of files, in bytes.
func resident(pid int) (anon, files int64, err error) {
	data, err := readProc(pid, "status")
	if err != nil {
		return 0, 0, err
	}
	line := func(name string) int64 {
		_, after, found := strings.Cut(string(data), "\n"+name+":")
		fields := strings.Fields(after)
		if !found || len(fields) < 2 {
			err = fmt.Errorf("/proc/%d/status has no %s: has the process ended?", pid, name)
			return 0
		}
		n, parseErr := strconv.ParseInt(fields[0], 10, 64)
		err = errors.Join(err, parseErr)
		return n << 10 // the unit kB is 1,024 bytes
	}
	return line("RssAnon"), line("RssFile"), err
}

// loadAverage returns the load average of the last minute; zero if the system has none.
func loadAverage() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
