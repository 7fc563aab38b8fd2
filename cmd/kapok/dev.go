package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev/screen"
	"github.com/kapok-dev/kapok/controllers"
	processnode "github.com/kapok-dev/kapok/node/process"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// A devCommand is kapok dev.
type devCommand struct {
	options dev.Options
	listen  string
	nodes   int
	process processNode
	plain   bool
}

func newDev() *cobra.Command {
	var d devCommand
	c := &cobra.Command{
		Use:   "dev [-- ARGUMENT...]",
		Short: "Run a project's operator with a server, and again after each change",
		Long: `Run the operator of the project in this directory, with a server of its own.

The server is in memory, with Kubernetes' controllers, the scheduler and a simulated node; with
--node process, pods are processes of this machine. The command generates code and manifests, applies config/default without its first
Deployment, which is the operator's, builds the operator, runs it as a process with the
token of its service account, and applies the samples. Then it waits: after a change of a
file it does again what the change needs. Webhooks are served by the process.

On a terminal, a screen shows the objects of the project, events and the operator's log; ? lists
its keys. With --plain, and where there is no terminal, lines begin with what they are from: the
operator's log, events, errors of a step. After an error, what ran before keeps running.

The operator gets ARGUMENT..., by default those that a main of kubebuilder needs here.`,
		Example: `  kapok dev
  kapok dev --plain
  kapok dev --debug-port 2345
  kapok dev --node process --image example.com/worker:v1=go://./cmd/worker
  kapok dev --main ./cmd/manager -- --leader-elect=false`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && c.ArgsLenAtDash() != 0:
				return fmt.Errorf("unexpected argument %q: arguments of the operator follow --", args[0])
			case len(args) > 0:
				d.options.Args = args
			}
			if err := d.complete(c.Flags().Changed("nodes")); err != nil {
				return err
			}
			d.options.Out = c.OutOrStdout()
			return failed(d.run(c.Context(), c))
		},
	}
	f := c.Flags()
	o := &d.options
	f.StringVar(&d.listen, "listen", "127.0.0.1:0", "address of the server, HOST:PORT; port 0 picks a free one")
	f.IntVar(&d.nodes, "nodes", 1, "simulated nodes to run; with --node process, none by default")
	processFlags(f, &d.process)
	f.StringVar(&o.Main, "main", "./cmd", "main package of the operator")
	f.BoolVar(&o.Admin, "admin", false, "run the operator as admin, not as its service account")
	f.BoolVar(&o.Samples, "samples", true, "apply the objects in config/samples")
	f.BoolVar(&d.plain, "plain", false, "print lines, not a screen (default on anything but a terminal)")
	f.IntVar(&o.DebugPort, "debug-port", 0, "port on which a debugger can connect to the operator; requires dlv (default none)")
	completeValues(c, "node", processnode.Process)
	return c
}

// complete checks the flags. With a node of processes there are simulated ones only if their number
// was set.
func (d *devCommand) complete(nodesSet bool) error {
	if d.nodes < 0 {
		return fmt.Errorf("--nodes is %d: must not be negative", d.nodes)
	}
	if d.options.DebugPort < 0 || d.options.DebugPort > 65535 {
		return fmt.Errorf("--debug-port is %d: want a port from 1 to 65535", d.options.DebugPort)
	}
	node, err := d.process.complete(d.listen)
	if node != nil && !nodesSet {
		d.nodes = 0
	}
	return err
}

func (d *devCommand) run(ctx context.Context, c *cobra.Command) error {
	o := d.options
	project, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := dev.CheckProject(project); err != nil {
		return err
	}
	o.Project = project
	if o.Dir, err = devDir(project); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if o.Generate, err = toolkitCommand(c.ErrOrStderr(), "generate"); err != nil {
		return err
	}
	o.Kustomize = []string{self, "kubectl", "kustomize"}

	unlock, err := lockDev(o.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, signals, stop := interrupts(ctx)
	defer stop()
	o.Hurry = signals.second
	kubeconfig := filepath.Join(o.Dir, "kubeconfig")
	logger := func(to io.Writer) *slog.Logger {
		return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	log := logger(c.ErrOrStderr())
	var s *screen.Screen
	if !d.plain && isScreen(c.InOrStdin(), o.Out, os.Getenv("TERM")) {
		s = screen.New(screen.Options{
			In: c.InOrStdin(), Out: o.Out, Project: project, Kubeconfig: kubeconfig, Interrupt: signals.interrupt, Environ: os.Environ(),
		})
		o.Sink, log = s, logger(dev.Writer(s, "server"))
		klog.SetSlogLogger(log) // Kubernetes' packages would write on the screen
	}
	begin := time.Now()
	opts := d.serverOptions()
	opts.Kubeconfig, opts.Logger = kubeconfig, log
	remove, err := d.process.place("")
	if err != nil {
		return err
	}
	defer remove()
	// The server stops after the operator.
	server, err := kapok.Start(context.WithoutCancel(ctx), opts)
	if err != nil {
		return err
	}
	d.process.serve(server)
	o.Config, o.Kubeconfig = server.Config(), server.Kubeconfig()
	fmt.Fprintf(o.Out, "The server is ready after %d ms. In another shell:\n\n  %s\n\n", time.Since(begin).Milliseconds(), export("KUBECONFIG", opts.Kubeconfig))
	if s != nil {
		s.Show(ctx, server.Config())
	}
	err = dev.Run(ctx, o)
	if s != nil {
		s.Close()
	}
	return errors.Join(err, server.Stop())
}

// serverOptions returns the options of a server with the controllers and nodes that the flags
// select.
func (d *devCommand) serverOptions() kapok.Options {
	opts := kapok.Options{Listen: d.listen, HistoryAPI: true}
	runs := kapok.Together{controllers.Options{Names: []string{"*"}}}
	var handlers []func(string) http.Handler
	metrics := &simulated.Metrics{} // of nodes of both kinds
	if node := d.process.node; node != nil {
		node.Metrics = metrics
		opts.ServiceAddresses, opts.Nodes.LoopbackEndpoints = processServices, true
		reachPods(&opts, node)
		runs, handlers = append(runs, node), append(handlers, node.Handler)
	}
	if d.nodes > 0 {
		kubelet := &simulated.Kubelet{}
		runs, handlers = append(runs, simulated.Options{Nodes: d.nodes, Kubelet: kubelet, Metrics: metrics}), append(handlers, kubelet.Handler)
	}
	if len(handlers) > 0 {
		opts.Aggregation.Handlers = map[schema.GroupVersion]http.Handler{simulated.MetricsVersion: metrics}
		runs = append(runs, scheduler.Options{})
		opts.Nodes.Kubelets = kubelets(handlers...)
	}
	opts.Controllers = runs
	return opts
}

// isScreen reports whether input and output are a terminal that can show a screen.
func isScreen(in io.Reader, out io.Writer, kind string) bool {
	i, isFile := in.(*os.File)
	o, areFiles := out.(*os.File)
	return isFile && areFiles && kind != "dumb" && term.IsTerminal(int(i.Fd())) && term.IsTerminal(int(o.Fd()))
}

// signals are those that end a command.
type signals struct {
	second    <-chan struct{} // closed by the second signal
	interrupt func()          // acts as a signal does; for keys
}

// interrupts returns a context that the first signal ends, and a channel that the second one
// closes. The third one ends the process. SIGPIPE is a first one, as what reads the output has
// gone, and no second one. stop frees what belongs to them.
func interrupts(ctx context.Context) (_ context.Context, _ signals, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	second, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for first := true; ; first = false {
			select {
			case <-over:
				return
			case s := <-received:
				cancel()
				if !first && s != syscall.SIGPIPE {
					close(second)
					signal.Stop(received)
					return
				}
			}
		}
	}()
	interrupt := func() {
		select {
		case received <- os.Interrupt:
		default: // a signal waits to be handled
		}
	}
	return ctx, signals{second, interrupt}, func() {
		signal.Stop(received)
		close(over)
		<-ended
		cancel()
	}
}

// lockDev locks the directory of a project, so that there is one kapok dev for it.
func lockDev(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := vfs.Default.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("kapok dev may run in this project already: lock %s: %w", dir, err)
	}
	return func() { _ = lock.Close() }, nil
}

// devDir returns the directory for what kapok dev keeps of a project.
func devDir(project string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for the operator: %w", err)
	}
	sum := sha256.Sum256([]byte(project))
	return filepath.Join(cache, "kapok", "dev", filepath.Base(project)+"-"+hex.EncodeToString(sum[:4])), nil
}
