package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/bench"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// benchmark is the command line of kapok bench.
type benchmark struct {
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
		Short: "Measure a Kubernetes API server: rates, latencies, what it spends",
		Long: `Measure a Kubernetes API server: rates, latencies, what it spends.

The load is always the same, so that two servers can be compared, and it is heavy:
it is no good company for a cluster that is in use. It makes a namespace and
definitions of its own, and removes them when it ends, also when it is interrupted.

Processor time and memory of the server are measured with --pid, if it runs on this
machine. docs/performance.md says what each measure is.`,
		Example: `  kapok bench --kubeconfig ./kubeconfig --scale small
  kapok bench --measure create,watch --duration 30s -o json
  kapok bench --pid $(pgrep -d, 'etcd|kube-apiserver') --fsync-dir /var/lib/etcd`,
		Args: cobra.NoArgs,
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
	f.StringVar(&b.kubeconfig, "kubeconfig", "", "kubeconfig of the server (default $KUBECONFIG)")
	f.StringVar(&b.context, "context", "", "context of the kubeconfig (default its current one)")
	f.StringSliceVar(&b.options.Measures, "measure", nil, "what to measure, some of "+strings.Join(bench.Measures(), ",")+" (default all; memory only with --pid)")
	f.StringVar(&b.scale, "scale", string(bench.Full), "size of the load: full, to compare servers, or small, to see that all works")
	f.DurationVar(&b.options.Duration, "duration", 0, "time of each measure that does not count, like 30s (default 10s, 1s with --scale small)")
	f.StringVar(&b.connections, "connections", "shared", "shared: one connection for all workers; own: one for each")
	f.Var(&b.pids, "pid", "process ids of the server on this machine, PID,PID: measure its processor time and memory too (Linux)")
	f.StringVar(&b.options.FsyncDir, "fsync-dir", "", "directory on the server's disk: tell latencies in fsyncs of that disk, too")
	b.as.flag(c)
	return c
}

// check refuses flags that make no sense.
func (b *benchmark) check(c *cobra.Command) error {
	for _, name := range []string{"kubeconfig", "context", "measure", "scale", "fsync-dir"} {
		if f := c.Flags().Lookup(name); f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	if c.Flags().Changed("duration") && b.options.Duration <= 0 {
		return fmt.Errorf("--duration %v makes no sense: must be at least %v", b.options.Duration, bench.MinDuration)
	}
	if b.connections != "shared" && b.connections != "own" {
		return fmt.Errorf("--connections %q is not known: want shared or own", b.connections)
	}
	b.options.OwnConnections = b.connections == "own"
	b.options.Scale = bench.Scale(b.scale)
	b.options.Processes = b.pids
	return b.options.Check()
}

func (b *benchmark) run(ctx context.Context, stdout, stderr io.Writer) error {
	config, err := b.config()
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
		return fmt.Errorf("interrupted, and %w", left)
	case ctx.Err() != nil && err != nil:
		return errors.New("interrupted; what it had made is removed")
	case err != nil && (report == nil || len(report.Measures) == 0):
		return err
	}
	if b.as == asJSON {
		err = errors.Join(err, printJSON(stdout, report))
	} else {
		err = errors.Join(err, report.WriteTable(stdout))
	}
	if n := report.Failed(); err == nil && n > 0 {
		err = fmt.Errorf("measures that failed: %d of %d", n, len(report.Measures))
	}
	return err
}

// config is that of the flags, or of the environment. Unlike kubectl, it does not
// fall back to a file in the home directory: a load should not go to a cluster that
// nobody has named.
func (b *benchmark) config() (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: b.kubeconfig}
	from := b.kubeconfig
	if from == "" {
		from = os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
		rules.Precedence = filepath.SplitList(from)
	}
	if from == "" {
		return nil, errors.New("which server? Name its kubeconfig with --kubeconfig FILE or in $KUBECONFIG")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: b.context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("kubeconfig %s is empty, or not there", from)
	case err != nil:
		return nil, fmt.Errorf("kubeconfig %s: %w", from, err)
	}
	return config, nil
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
			return fmt.Errorf("%q is no process id: want PID or PID,PID", one)
		}
		*p = append(*p, pid)
	}
	return nil
}
