//go:build unix

package replicas

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A shell runs commands one after the other, as a user types them.
type shell struct {
	input io.Writer
	lines chan string // of both streams; closed at the end
	pids  []int       // processes in the background
}

// newShell starts a shell in a directory. Its background processes end with the test.
func newShell(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	s := &shell{input: input, lines: make(chan string, 100)}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(output); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		for _, pid := range s.pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		input.Close()
		for range s.lines {
		}
		cmd.Wait()
		output.Close()
	})
	return s
}

// try runs commands, and returns their output and the exit code of the last one.
func (s *shell) try(t *testing.T, commands string) (output string, code int) {
	t.Helper()
	const mark = "exit-code-of-that:"
	// Earlier output may not end with a newline.
	fmt.Fprintf(s.input, "%s\nprintf '\\n%s %%d\\n' $?\n", strings.TrimRight(commands, "\n"), mark)
	var printed strings.Builder
	for patience := time.After(5 * time.Minute); ; {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("the shell has ended at\n%s\n%s", commands, &printed)
			}
			if text, is := strings.CutPrefix(line, mark+" "); is {
				code, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				return printed.String(), code
			}
			fmt.Fprintln(&printed, line)
		case <-patience:
			t.Fatalf("no end of\n%s\n%s", commands, &printed)
		}
	}
}

// run is try for commands that must succeed.
func (s *shell) run(t *testing.T, commands string) string {
	t.Helper()
	output, code := s.try(t, commands)
	if code != 0 {
		t.Fatalf("exit code %d of\n%s\n%s", code, commands, output)
	}
	return output
}

// launch runs commands that start background processes, and returns those.
func (s *shell) launch(t *testing.T, commands string) (pids []int) {
	t.Helper()
	before := s.jobs(t)
	s.run(t, commands)
	for pid := range s.jobs(t) {
		if !before[pid] {
			pids = append(pids, pid)
		}
	}
	s.pids = append(s.pids, pids...)
	return pids
}

func (s *shell) jobs(t *testing.T) map[int]bool {
	t.Helper()
	all := map[int]bool{}
	for _, word := range strings.Fields(s.run(t, "jobs -p")) {
		if pid, err := strconv.Atoi(word); err == nil {
			all[pid] = true
		}
	}
	return all
}
