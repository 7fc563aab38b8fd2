//go:build linux || darwin

package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// shimVariable is set in the environment of a shim, to the directory of its run.
const shimVariable = "KAPOK_PROCESS_SHIM"

// socketName is the name of the socket of a shim.
const socketName = "s"

// The files of a shim.
const (
	lockFile   = 3
	readyFile  = 4
	tetherFile = 5 // only with Options.Tether
)

// drainTime is the time for which a shim waits for the end of the output after all processes have
// ended: another process may have inherited the output without being a descendant.
const drainTime = 2 * time.Second

// A shim is the parent of a run.
type shim struct {
	dir  *os.Root
	spec Spec
	main int // the process id of the container

	begin started

	children children
	log      *logFile
	stdout   broadcast
	stderr   broadcast
	stdin    *os.File // what the container reads from; nil without Stdin
	terminal *os.File // nil without a terminal

	mu       sync.Mutex
	sessions map[int]bool // the process groups of commands
}

// runShim is the function main of a shim.
func runShim(dir string) int {
	syscall.CloseOnExec(lockFile)
	syscall.CloseOnExec(readyFile)
	if os.Getenv(tetherVariable) != "" {
		syscall.CloseOnExec(tetherFile)
	}
	ready := os.NewFile(readyFile, "ready")
	// A signal that is ignored would also be ignored by the container.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE, syscall.SIGQUIT)
	debug.FreeOSMemory() // what the initialization of the program has left
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 1
	}
	s := &shim{dir: root, sessions: map[int]bool{}}
	if err = s.run(ready); err == nil {
		return 0
	}
	exit := Exit{Code: 128, Time: time.Now(), Reason: StartError, Message: err.Error()}
	err = errors.Join(err, writeFile(root, "exit.json", &exit))
	json.NewEncoder(ready).Encode(response{Error: err.Error()})
	return 1
}

// run runs the container, and returns after its end, or the error that kept it from starting.
func (s *shim) run(ready *os.File) error {
	found, err := readFile(s.dir, "spec.json", &s.spec)
	if err != nil || !found {
		return fmt.Errorf("read the specification of the container: %w", err)
	}
	becomeSubreaper()
	listener, err := listen(s.dir)
	if err != nil {
		return err
	}
	defer listener.Close()
	s.children.start()
	s.log = openLog(s.dir, "log", s.spec.LogBytes, s.spec.LogFiles)
	defer s.log.close()
	copied, err := s.startMain()
	if err != nil {
		return err
	}
	s.begin = started{Pid: s.main, Birth: birth(s.main), Time: time.Now()}
	if err := writeFile(s.dir, "started.json", &s.begin); err != nil {
		syscall.Kill(-s.main, syscall.SIGKILL)
		return err
	}
	json.NewEncoder(ready).Encode(response{Pid: s.main, Started: &s.begin}) // fails if the program has ended
	ready.Close()
	if os.Getenv(tetherVariable) != "" {
		go s.endWith(os.NewFile(tetherFile, "tether"))
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	go func() {
		for range terms {
			syscall.Kill(s.main, syscall.SIGTERM)
		}
	}()
	go s.serve(listener)

	status := s.children.wait(s.main)
	exit := exitOf(status)
	if exit.Code != 0 && s.spec.Group.OOMKills() > 0 {
		exit.Reason = OutOfMemory
	}
	s.endAll()
	_ = s.spec.Group.Remove() // else the program does so, if it runs
	select {
	case <-copied:
	case <-time.After(drainTime):
	}
	s.stdout.finish()
	s.stderr.finish()
	return writeFile(s.dir, "exit.json", exit)
}

func exitOf(status syscall.WaitStatus) *Exit {
	e := &Exit{Code: status.ExitStatus(), Time: time.Now()}
	if status.Signaled() {
		e.Signal = int(status.Signal())
		e.Code = 128 + e.Signal
	}
	return e
}

// endWith kills the container when the program has ended that has started the shim.
func (s *shim) endWith(tether *os.File) {
	_, _ = io.Copy(io.Discard, tether) // ends with the program
	syscall.Kill(-s.main, syscall.SIGKILL)
}

// startMain starts the container. The channel is closed when all its output is copied.
func (s *shim) startMain() (copied <-chan struct{}, err error) {
	var child, own []*os.File // of the container, and of the shim
	defer func() {
		closeAll(child)
		if err != nil {
			closeAll(own)
		}
	}()
	attributes := &syscall.SysProcAttr{Setsid: true}
	var group sync.WaitGroup
	if s.spec.Terminal {
		terminal, tty, err := pty.Open()
		if err != nil {
			return nil, err
		}
		own, child = append(own, terminal), append(child, tty)
		attributes.Setctty = true
		s.terminal, s.stdin = terminal, terminal
		if s.main, err = s.spawnMain([]*os.File{tty, tty, tty}, attributes); err != nil {
			return nil, err
		}
		group.Go(func() { copyLines(terminal, "stdout", s.log, &s.stdout) })
	} else {
		in, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		if s.spec.Stdin {
			in.Close()
			if in, s.stdin, err = os.Pipe(); err != nil {
				return nil, err
			}
			own = append(own, s.stdin)
		}
		child = append(child, in)
		files := []*os.File{in}
		var outputs [2]*os.File
		for i := range outputs {
			r, w, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			outputs[i], own, child, files = r, append(own, r), append(child, w), append(files, w)
		}
		if s.main, err = s.spawnMain(files, attributes); err != nil {
			return nil, err
		}
		group.Go(func() { copyLines(outputs[0], "stdout", s.log, &s.stdout) })
		group.Go(func() { copyLines(outputs[1], "stderr", s.log, &s.stderr) })
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return done, nil
}

// spawnMain starts the first process of the container.
func (s *shim) spawnMain(files []*os.File, a *syscall.SysProcAttr) (pid int, err error) {
	if s.spec.Root != nil {
		return s.spawnRoot(files, a)
	}
	return s.spawn(s.spec.Path, s.spec.Args, s.spec.Dir, s.spec.Env, files, a)
}

// spawn starts a program in the control group of the container.
func (s *shim) spawn(path string, args []string, dir string, env []string, files []*os.File, a *syscall.SysProcAttr) (pid int, err error) {
	err = s.spec.Group.Start(a, func() error {
		pid, err = s.children.spawn(path, args, dir, env, files, a)
		return err
	})
	return pid, err
}

// spawnCommand starts a command in the container. The error is a NotFoundError if there is none.
func (s *shim) spawnCommand(args []string, files []*os.File, a *syscall.SysProcAttr) (pid int, err error) {
	if s.spec.Root != nil {
		return s.spawnInside(args, files, a)
	}
	path, err := lookPath(args[0], s.spec.Dir, s.spec.Env)
	if err != nil {
		return 0, &NotFoundError{Message: err.Error()}
	}
	return s.spawn(path, args, s.spec.Dir, s.spec.Env, files, a)
}

// endAll kills all processes that the first one has left behind, and those of commands.
func (s *shim) endAll() {
	syscall.Kill(-s.main, syscall.SIGKILL)
	s.mu.Lock()
	for group := range s.sessions {
		syscall.Kill(-group, syscall.SIGKILL)
	}
	s.mu.Unlock()
	killDescendants()
}

// serve serves the socket until the listener is closed.
func (s *shim) serve(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // such as too many open files
			continue
		}
		go s.answer(c)
	}
}

func (s *shim) answer(c *net.UnixConn) {
	defer c.Close()
	var q request
	files, err := receive(c, &q)
	defer func() { closeAll(files) }()
	if err != nil {
		return
	}
	switch q.Do {
	case "watch":
		send(c, response{Pid: s.main, Started: &s.begin})
		_, _ = io.Copy(io.Discard, c) // until either side ends
	case "signal":
		// KILL ends all: the first process, and by its end the others.
		syscall.Kill(s.main, syscall.Signal(q.Signal))
		send(c, response{})
	case "exec":
		s.exec(c, &q, files)
	case "attach":
		s.attach(c, &q, files)
	default:
		send(c, response{Error: fmt.Sprintf("request %q is unknown", q.Do)})
	}
}

// exec runs a command in the container. It is killed when the client goes.
func (s *shim) exec(c *net.UnixConn, q *request, files []*os.File) {
	if len(q.Args) == 0 {
		send(c, response{Error: "the command is empty"})
		return
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		send(c, response{Error: err.Error()})
		return
	}
	defer null.Close()
	streams := []*os.File{null, null, null}
	next := files
	for i, has := range []bool{q.In, q.Out, q.Err} {
		if has && len(next) > 0 {
			streams[i], next = next[0], next[1:]
		}
	}
	attributes := &syscall.SysProcAttr{Setsid: true}
	if q.Terminal {
		if len(files) != 1 {
			send(c, response{Error: "a terminal has one file"})
			return
		}
		streams = []*os.File{files[0], files[0], files[0]}
		attributes.Setctty = true
	}
	pid, err := s.spawnCommand(q.Args, streams, attributes)
	closeAll(files)
	if err != nil {
		var notFound *NotFoundError
		send(c, response{Error: err.Error(), Path: errors.As(err, &notFound)})
		return
	}
	s.mu.Lock()
	s.sessions[pid] = true
	s.mu.Unlock()
	send(c, response{Pid: pid})
	done := make(chan syscall.WaitStatus, 1)
	go func() { done <- s.children.wait(pid) }()
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, c)
		close(gone)
	}()
	var status syscall.WaitStatus
	select {
	case status = <-done:
	case <-gone:
		syscall.Kill(-pid, syscall.SIGKILL)
		status = <-done
	}
	s.mu.Lock()
	delete(s.sessions, pid)
	s.mu.Unlock()
	send(c, response{Code: exitOf(status).Code})
}

// attach connects files with the streams of the container until the client goes or the container
// ends.
func (s *shim) attach(c *net.UnixConn, q *request, files []*os.File) {
	next := files
	take := func(has bool) *os.File {
		if !has || len(next) == 0 {
			return nil
		}
		f := next[0]
		next = next[1:]
		return f
	}
	in, out, errs := take(q.In), take(q.Out), take(q.Err)
	if out != nil {
		defer s.stdout.add(out)()
	}
	if errs != nil {
		defer s.stderr.add(errs)()
	}
	if in != nil && s.stdin != nil {
		go func() {
			_, _ = io.Copy(s.stdin, in)
			if s.spec.StdinOnce && !s.spec.Terminal {
				s.stdin.Close()
			}
		}()
	}
	send(c, response{Pid: s.main})
	for {
		// A terminal changes its size by further messages.
		var resize struct{ Rows, Cols uint16 }
		more, err := receive(c, &resize)
		closeAll(more)
		if err != nil {
			return
		}
		if s.terminal != nil && resize.Rows > 0 && resize.Cols > 0 {
			_ = pty.Setsize(s.terminal, &pty.Winsize{Rows: resize.Rows, Cols: resize.Cols})
		}
	}
}

// A broadcast writes to files that are attached. One that does not take what is written is
// detached, so that it does not delay the container.
type broadcast struct {
	mu    sync.Mutex
	all   map[*os.File]chan []byte
	group sync.WaitGroup
}

// behind is the number of writes that an attached file may be late.
const behind = 256

// add attaches a file, and returns the function that detaches it.
func (b *broadcast) add(f *os.File) (remove func()) {
	queue := make(chan []byte, behind)
	b.mu.Lock()
	if b.all == nil {
		b.all = map[*os.File]chan []byte{}
	}
	b.all[f] = queue
	b.mu.Unlock()
	b.group.Go(func() {
		for data := range queue {
			if _, err := f.Write(data); err != nil {
				b.drop(f)
				return
			}
		}
	})
	return func() { b.drop(f) }
}

// finish waits until those that are attached have what was written, but not longer than drainTime.
func (b *broadcast) finish() {
	b.mu.Lock()
	for f, queue := range b.all {
		delete(b.all, f)
		close(queue)
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() {
		b.group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainTime):
	}
}

func (b *broadcast) drop(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.all[f]; queue != nil {
		delete(b.all, f)
		close(queue)
	}
}

// Write implements io.Writer. It does not block.
func (b *broadcast) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for f, queue := range b.all {
		select {
		case queue <- append([]byte(nil), p...):
		default:
			delete(b.all, f)
			close(queue)
		}
	}
	return len(p), nil
}

// children are the processes that a shim has started, and those that it has inherited. One
// goroutine waits for all of them: os.Process.Wait would not find those that are inherited.
type children struct {
	mu      sync.Mutex
	changed sync.Cond
	ended   map[int]syscall.WaitStatus // of those that were started; the entry of one that runs is missing
	known   map[int]bool
}

func (c *children) start() {
	c.ended, c.known = map[int]syscall.WaitStatus{}, map[int]bool{}
	c.changed.L = &c.mu
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	go func() {
		for range signals {
			c.reap()
		}
	}()
}

func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c.known[pid] {
			c.ended[pid] = status
			c.changed.Broadcast()
		}
	}
}

// spawn starts a program.
func (c *children) spawn(path string, args []string, dir string, env []string, files []*os.File, a *syscall.SysProcAttr) (pid int, err error) {
	var descriptors []uintptr
	for _, f := range files {
		descriptors = append(descriptors, f.Fd())
	}
	c.mu.Lock() // reap does not miss the process
	defer c.mu.Unlock()
	pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{Dir: dir, Env: env, Files: descriptors, Sys: a})
	if err != nil {
		return 0, &os.PathError{Op: "exec", Path: path, Err: err}
	}
	c.known[pid] = true
	return pid, nil
}

// wait returns how a process has ended.
func (c *children) wait(pid int) syscall.WaitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if status, ok := c.ended[pid]; ok {
			delete(c.ended, pid)
			delete(c.known, pid)
			return status
		}
		c.changed.Wait()
	}
}

// lookPath finds a program in the PATH of an environment.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	search := ""
	for _, e := range env {
		if text, ok := strings.CutPrefix(e, "PATH="); ok {
			search = text
		}
	}
	for _, d := range filepath.SplitList(search) {
		if !filepath.IsAbs(d) {
			continue
		}
		if path := filepath.Join(d, name); executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("exec: %s: executable file not found in $PATH", strconv.Quote(name))
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return &os.PathError{Op: "exec", Path: path, Err: syscall.EACCES}
	}
	return nil
}
