package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/contexts"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"

	"github.com/spf13/pflag"
)

// detachedVariable is set in the process that kapok up --detach starts.
const detachedVariable = "KAPOK_UP_DETACHED"

// named is the instance that kapok up runs. It is nil for a server without a name: on a --data-dir
// of its own, and in memory or on etcd without a NAME, unless it is that of a project.
type named struct {
	instance.Instance
	home      instance.Home
	project   *instance.Project
	record    instance.Record
	log       *logFile
	anyPort   bool // --listen was not set
	noContext bool
	detached  bool // this process is in the background
	stderr    io.Writer
}

// choose returns the instance for the arguments and flags of kapok up.
func choose(args []string, f *pflag.FlagSet, noContext bool) (*named, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if f.Changed("data-dir") && name != "" {
		return nil, errors.New("NAME and --data-dir exclude each other: an instance has its own directory")
	}
	if f.Changed("data-dir") {
		return nil, nil
	}
	i, project, implied, err := chosen(name)
	if err != nil {
		return nil, err
	}
	if implied && project == nil && (f.Changed("in-memory") || f.Changed("store")) {
		return nil, nil
	}
	home, err := instances()
	if err != nil {
		return nil, err
	}
	return &named{
		Instance: i, home: home, project: project, log: &logFile{},
		anyPort: !f.Changed("listen"), noContext: noContext || f.Changed("kubeconfig"),
		detached: os.Getenv(detachedVariable) != "",
	}, nil
}

// begin locks the instance, and completes the options with the port.
func (n *named) begin(ctx context.Context, opts *kapok.Options) (end func(), err error) {
	lock, err := n.Lock()
	if errors.Is(err, instance.ErrRunning) {
		return nil, n.alreadyRuns()
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Release()
		}
	}()
	if n.record, err = n.Record(); err != nil {
		return nil, err
	}
	if n.record.Created.IsZero() {
		n.record.Created = time.Now().UTC().Truncate(time.Second)
	}
	if n.project != nil {
		n.record.Project = n.project.Dir
	}
	if n.anyPort {
		before := n.record.Port
		port, err := n.home.TakePort(ctx, n.Instance, &n.record)
		if err != nil {
			return nil, err
		}
		if before != 0 && port != before {
			fmt.Fprintf(n.stderr, "Port %d is in use by another program: instance %s now has port %d.\n", before, n.Name, port)
		}
		opts.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	} else if _, port, err := net.SplitHostPort(opts.Listen); err == nil {
		if number, err := strconv.Atoi(port); err == nil && number > 0 && number < 1<<16 {
			n.record.Port = number
		}
	}
	kubeconfig, err := filepath.Abs(opts.Kubeconfig)
	if err != nil {
		return nil, err
	}
	n.record.Process = &instance.Process{ID: os.Getpid(), Started: time.Now().UTC(), Detached: n.detached, Kubeconfig: kubeconfig, Store: opts.Store}
	if opts.DataDir == "" {
		n.record.Process.Store = "memory"
	}
	if err := n.Write(n.record); err != nil {
		return nil, err
	}
	if !n.detached { // otherwise the file is the output of this process
		if err := n.log.open(n.Log()); err != nil {
			return nil, err
		}
	}
	return func() {
		n.log.close()
		lock.Release()
	}, nil
}

func (n *named) alreadyRuns() error {
	id, _ := n.Locked()
	r, err := n.Record()
	if err != nil || r.Process == nil || r.Process.Address == "" {
		return fmt.Errorf("instance %s is already running: process %d starts it", n.Name, id)
	}
	return fmt.Errorf("instance %s is already running at https://%s as process %d: kapok stop %s stops it", n.Name, r.Process.Address, id, n.Name)
}

// ready adds the context to the user's kubeconfig, and returns a description of it for the user, ""
// if there is none.
func (n *named) ready(s *kapok.Server) (context string) {
	if !n.noContext {
		context = n.mergeContext(s.Kubeconfig())
	}
	return context
}

// done notes in the record that the server is ready.
func (n *named) done(s *kapok.Server) error {
	n.record.Process.Address = s.Address()
	return n.Write(n.record)
}

func (n *named) mergeContext(kubeconfig []byte) string {
	file, err := filepath.Abs(contexts.File())
	if err != nil {
		return ""
	}
	if rest, err := filepath.Rel(n.home.Dir, file); file == n.record.Process.Kubeconfig || err == nil && filepath.IsLocal(rest) {
		return "" // $KUBECONFIG is already the file of an instance
	}
	if err := contexts.Add(file, n.Context(), n.Dir, kubeconfig); err != nil {
		fmt.Fprintf(n.stderr, "Warning: context %s is not in %s: %v\n", n.Context(), file, err)
		return ""
	}
	if !slices.Contains(n.record.Kubeconfigs, file) {
		n.record.Kubeconfigs = append(n.record.Kubeconfigs, file)
	}
	return n.Context() + ", selected in " + file
}

// detach starts this command line again in the background, and waits until the server is ready.
func (n *named) detach(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, restore := interruptible(ctx)
	defer restore()
	if _, locked := n.Locked(); locked {
		return n.alreadyRuns()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	if err := n.log.open(n.Log()); err != nil {
		return err
	}
	defer n.log.close()
	begin, err := n.log.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Stdout, c.Stderr, c.SysProcAttr = n.log.file, n.log.file, inBackground()
	c.Env = append(os.Environ(), detachedVariable+"=1")
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ended:
			_ = n.print(begin, stderr)
			return fmt.Errorf("instance %s did not start", n.Name)
		case <-ctx.Done():
			_ = c.Process.Kill()
			<-ended
			return errors.New("interrupted: the server was stopped")
		}
		if r, err := n.Record(); err == nil && r.Process != nil && r.Process.ID == c.Process.Pid && r.Process.Address != "" {
			break
		}
	}
	if err := n.print(begin, stdout); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "It runs in the background: kapok logs %s prints its log, kapok stop %s stops it.\n", n.Name, n.Name)
	return nil
}

// print prints what the background process has printed so far.
func (n *named) print(from int64, to io.Writer) error {
	f, err := os.Open(n.Log())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return err
}

// logFile is the log of an instance. It drops what is written before it is open.
type logFile struct{ file *os.File }

// fullLog is the size in bytes from which a start begins a new log, and keeps the old one beside
// it.
const fullLog = 8 << 20

func (l *logFile) open(path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > fullLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	l.file = f
	return err
}

// Write implements io.Writer. A log that cannot be written, as on a full disk, does not end the
// server.
func (l *logFile) Write(p []byte) (int, error) {
	if l.file != nil {
		_, _ = l.file.Write(p)
	}
	return len(p), nil
}

func (l *logFile) close() {
	if l.file != nil {
		l.file.Close()
	}
}
