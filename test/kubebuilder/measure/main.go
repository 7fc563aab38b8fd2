//go:build linux

// Command measure runs a program several times and prints what each run has taken: the time on the
// clock, the processor time of the program and of all that it has started and waited for, and the
// most anonymous memory that all of them had together, sampled every 20 ms.
//
//	go run ./measure -n 5 ./controller.test
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	n := flag.Int("n", 5, "how many runs")
	flag.Parse()
	if flag.NArg() == 0 || *n < 1 {
		flag.Usage()
		os.Exit(2)
	}
	runs := make([]taken, *n)
	for i := range runs {
		var err error
		if runs[i], err = measure(flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(runs[i])
	}
	slices.SortFunc(runs, func(a, b taken) int { return int(a.wall - b.wall) })
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("median by wall: %s; load at the end: %s", runs[len(runs)/2], load)
}

type taken struct {
	wall, cpu time.Duration
	memory    int64 // KiB
}

func (t taken) String() string {
	return fmt.Sprintf("wall %.2fs cpu %.2fs memory %d MiB", t.wall.Seconds(), t.cpu.Seconds(), t.memory>>10)
}

func measure(args []string) (t taken, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return t, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			t.wall = time.Since(begin)
			t.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			if err != nil {
				err = fmt.Errorf("%s: %w\n%s", cmd, err, &out)
			}
			return t, err
		case <-tick.C:
			t.memory = max(t.memory, memoryOf(cmd.Process.Pid))
		}
	}
}

// memoryOf is the anonymous memory of a process and of its descendants, in KiB. Processes that end
// meanwhile have none.
func memoryOf(root int) (sum int64) {
	status, _ := filepath.Glob("/proc/[0-9]*/status")
	parent, memory := map[int]int{}, map[int]int64{}
	for _, file := range status {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent[pid], memory[pid] = read(file)
	}
	for pid := range parent {
		for p := pid; p > 1; p = parent[p] {
			if p == root {
				sum += memory[pid]
				break
			}
		}
	}
	return sum
}

func read(status string) (parent int, memory int64) {
	f, err := os.Open(status)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSuffix(strings.TrimSpace(value), " kB")
		switch name {
		case "PPid":
			parent, _ = strconv.Atoi(value)
		case "RssAnon":
			memory, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return parent, memory
}
