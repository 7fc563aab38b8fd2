package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/bench"

	"github.com/spf13/cobra"
)

// benchmark is the command line of kapok bench.
type benchmark struct {
	instance    instanceFlag
	kubeconfig  string
	context     string
	scale       string
	connections string
	pids        pids
	options     bench.Options
	as          output
}

func newBench() *cobra.Command {
	b := &benchmark{}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a Kubernetes API server: rates, latencies, CPU and memory",
		Long: `Measure a Kubernetes API server: rates, latencies, CPU and memory.

The load is always the same, so that two servers can be compared, and it is heavy:
do not run it against a cluster that is in use. It creates its own namespace and
definitions, and removes them when it ends, even if it is interrupted.

With --pid, it also measures the CPU time and memory of a server on this machine.
docs/performance.md describes the measures.`,
		Example: `  kapok bench --kubeconfig ./kubeconfig --scale small
  kapok bench --measure create,watch --duration 30s -o json
  kapok bench --pid $(pgrep -d, 'etcd|kube-api') --fsync-dir /var/lib/etcd`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := b.check(c); err != nil {
				return err
			}
			ctx, release := interruptible(c.Context())
			defer release()
			return failed(b.run(ctx, c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	f := c.Flags()
	f.StringVar(&b.kubeconfig, "kubeconfig", "", "kubeconfig of the server (default $KUBECONFIG, or that of the instance)")
	b.instance.flag(c)
	exclude(c, "instance", "kubeconfig")
	f.StringVar(&b.context, "context", "", "context of the kubeconfig (default its current one)")
	f.StringSliceVar(&b.options.Measures, "measure", nil, "measures to run, a list of "+strings.Join(bench.Measures(), ",")+" (default all; memory only with --pid)")
	f.StringVar(&b.scale, "scale", string(bench.Full), "size of the load: full to compare servers, small for a quick check")
	f.DurationVar(&b.options.Duration, "duration", 0, "duration of each timed measure, like 30s (default 10s, 1s with --scale small)")
	f.StringVar(&b.connections, "connections", "shared", "shared: all workers use one connection; own: one connection for each worker")
	f.Var(&b.pids, "pid", "process IDs of the server on this machine, PID,PID: also measure its CPU time and memory (Linux)")
	f.StringVar(&b.options.FsyncDir, "fsync-dir", "", "directory on the server's disk: also report latencies in multiples of one fsync of that disk")
	completeValues(c, "connections", "shared", "own")
	b.as.flag(c)
	return c
}

// check rejects invalid flags.
func (b *benchmark) check(c *cobra.Command) error {
	for _, name := range []string{"instance", "kubeconfig", "context", "measure", "scale", "fsync-dir"} {
		if f := c.Flags().Lookup(name); f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	if c.Flags().Changed("duration") && b.options.Duration <= 0 {
		return fmt.Errorf("--duration %v is too short: must be at least %v", b.options.Duration, bench.MinDuration)
	}
	if b.connections != "shared" && b.connections != "own" {
		return fmt.Errorf("--connections %q is invalid: want shared or own", b.connections)
	}
	b.options.OwnConnections = b.connections == "own"
	b.options.Scale = bench.Scale(b.scale)
	b.options.Processes = b.pids
	return b.options.Check()
}

func (b *benchmark) run(ctx context.Context, stdout, stderr io.Writer) error {
	file, err := b.instance.kubeconfig(b.kubeconfig)
	if err != nil {
		return err
	}
	config, err := configOf(file, b.context)
	if err != nil {
		return err
	}
	b.options.Config = config
	display := &progressLine{out: stderr, terminal: isTerminal(stderr), begin: time.Now()}
	b.options.Progress = display.show
	report, err := bench.Run(ctx, b.options)
	display.clear()
	var left *bench.LeftError
	switch {
	case ctx.Err() != nil && errors.As(err, &left):
		return fmt.Errorf("interrupted; %w", left)
	case ctx.Err() != nil && err != nil:
		return errors.New("interrupted; the objects it had created are removed")
	case err != nil && (report == nil || len(report.Measures) == 0):
		return err
	}
	if b.as == asJSON {
		err = errors.Join(err, printJSON(stdout, report))
	} else {
		err = errors.Join(err, report.WriteTable(stdout))
	}
	if n := report.Failed(); err == nil && n > 0 {
		err = fmt.Errorf("%d of %d measures failed", n, len(report.Measures))
	}
	return err
}

// pids is the value of the flag --pid.
type pids []int

// String, Set and Type implement pflag.Value.
func (p *pids) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*p)), " ", ","), "[]")
}
func (p *pids) Type() string { return "ints" }
func (p *pids) Set(s string) error {
	for _, one := range strings.Split(s, ",") {
		pid, err := strconv.Atoi(strings.TrimSpace(one))
		if err != nil || pid <= 0 {
			return fmt.Errorf("%q is not a process ID: want PID or PID,PID", one)
		}
		*p = append(*p, pid)
	}
	return nil
}
