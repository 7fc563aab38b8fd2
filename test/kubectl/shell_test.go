package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limit is the time limit for the commands of one block.
const limit = 3 * patience

// A shell is bash, in which commands run one after the other.
type shell struct {
	*testing.T
	dir     string // the working directory
	scratch string // scripts, their output, and the logs of programs in the background
	ports   *strings.Replacer
	env     []string
	input   io.Writer
	codes   *bufio.Reader
	cancel  context.CancelFunc // kills the shell
	scripts int
}

// prelude defines what stands for a second terminal: foreground runs a program in the background
// and waits until it is ready, and interrupt ends it as Ctrl-C does. After kapok up, KUBECONFIG is
// what the server prints, unless it has selected its context.
const prelude = `
declare -A running
foreground() {
	case " $* " in *" --detach "*) "$@"; return ;; esac
	local name=$2 log=$SCRATCH/$2.log ready
	case $name in
	up) ready='^  ready ' ;;
	console) ready='http://' ;;
	controllers) ready='^Controllers run ' ;;
	esac
	interrupt "$name"
	: >"$log" # the program before this one was ready, too
	"$@" >"$log" 2>&1 &
	running[$name]=$!
	until grep -q "$ready" "$log"; do
		kill -0 "${running[$name]}" 2>/dev/null || { echo "$* has ended:"; cat "$log"; unset "running[$name]"; return 1; }
		sleep 0.05
	done
	if [ "$name" = up ]; then
		unset KUBECONFIG
		grep -q ', selected in ' "$log" || export KUBECONFIG=$(sed -n 's/^ *export KUBECONFIG=//p' "$log")
	fi
}
interrupt() {
	local pid=${running[$1]}
	[ -n "$pid" ] || return 0
	unset "running[$1]"
	kill -INT "$pid"
	wait "$pid"
}
trap 'for name in "${!running[@]}"; do interrupt "$name"; done' EXIT
`

// newShell starts a shell with an empty home. Its background processes end with the test.
func newShell(t *testing.T) *shell {
	t.Helper()
	home := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOCACHE").Output() // in the home by default
	if err != nil {
		t.Fatal(err)
	}
	modules, builds, _ := strings.Cut(strings.TrimSpace(string(caches)), "\n")
	s := &shell{T: t, dir: t.TempDir(), scratch: t.TempDir()}
	first, second := freePort(t), freePort(t)
	s.ports = strings.NewReplacer(":6443", ":"+first, ":7443", ":"+second)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "KAPOK_") && !strings.HasPrefix(v, "KUBECONFIG=") && !strings.HasPrefix(v, "XDG_") {
			s.env = append(s.env, v)
		}
	}
	s.env = append(s.env, "HOME="+home, "SCRATCH="+s.scratch, "ROOT="+root, "KAPOK_LISTEN=127.0.0.1:"+first,
		"GOMODCACHE="+modules, "GOCACHE="+builds,
		"XDG_DATA_HOME="+filepath.Join(home, ".local", "share"), "XDG_CONFIG_HOME="+filepath.Join(home, ".config"),
		"XDG_CACHE_HOME="+filepath.Join(home, ".cache"), "XDG_STATE_HOME="+filepath.Join(home, ".local", "state"),
		"PATH="+strings.Join([]string{bin, filepath.Join(home, ".local", "bin"), os.Getenv("PATH")}, string(os.PathListSeparator)))

	// The context of the test ends before its cleanups, which need the shell.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.cancel = cancel
	cmd := exec.CommandContext(ctx, "bash", "--norc")
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env, 10*time.Second
	cmd.Stderr = t.Output()
	cmd.Cancel = func() error {
		// A shell that is killed leaves its programs running.
		children := exec.Command("pkill", "-INT", "-P", strconv.Itoa(cmd.Process.Pid))
		return errors.Join(children.Run(), cmd.Process.Kill())
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	codes, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.input, s.codes = input, bufio.NewReader(codes)
	t.Cleanup(func() {
		defer cancel()
		timer := time.AfterFunc(patience, cancel)
		defer timer.Stop()
		closed := input.Close()
		rest, _ := io.ReadAll(s.codes)
		if err := errors.Join(closed, cmd.Wait()); err != nil && !t.Failed() {
			t.Errorf("the programs of the page: %v\n%s", err, rest)
		}
		s.stopInstances()
	})
	if out, code := s.run(prelude); code != 0 {
		t.Fatalf("prelude: %d\n%s", code, out)
	}
	return s
}

// stopInstances stops what runs in the background after the page.
func (s *shell) stopInstances() {
	cmd := exec.Command("bash", "-c", `kapok list | awk '$2 == "running" { print $1 }' | xargs -rn1 kapok stop`)
	cmd.Dir, cmd.Env = s.dir, s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Errorf("stop instances: %v\n%s", err, out)
	}
}

// run runs commands, and returns their output and the exit code of the last one. If the shell ends,
// as it does by a failing command after set -e, the code is 1.
func (s *shell) run(commands string) (output string, code int) {
	s.Helper()
	s.scripts++
	script := filepath.Join(s.scratch, fmt.Sprintf("script-%d", s.scripts))
	commands = foreground.ReplaceAllString(s.ports.Replace(commands), "foreground $1")
	if err := os.WriteFile(script, []byte(commands+"\n"), 0o600); err != nil {
		s.Fatal(err)
	}
	timer := time.AfterFunc(limit, s.cancel)
	_, failed := fmt.Fprintf(s.input, "set +e; . %[1]s >%[1]s.out 2>&1 </dev/null; echo $?\n", script)
	line, err := s.codes.ReadString('\n')
	late := !timer.Stop()
	out, readErr := os.ReadFile(script + ".out")
	if err := errors.Join(failed, readErr); err != nil {
		s.Fatalf("the shell has ended before\n%s\n%v", commands, err)
	}
	if late {
		s.Fatalf("%s\n\ntakes longer than %s:\n%s", commands, limit, out)
	}
	code, parseErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || parseErr != nil {
		code = 1
	}
	return string(out), code
}

// freePort returns a port that no program uses, below those from which systems choose.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10000 + rand.IntN(20000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("there are no free ports")
	return ""
}
