package dev

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Options configure Run.
type Options struct {
	// Project is the directory of the project, which has a file PROJECT and config/default.
	Project string
	// Dir is a directory for the program and its credentials.
	Dir string
	// Main is the package of the operator. Default: ./cmd.
	Main string
	// Args are the arguments of the operator. Default: those that the main of a kubebuilder project
	// needs to run on this machine: no metrics, no probes, no leader election, and where webhooks are
	// served.
	Args []string
	// Admin runs the operator as admin, in place of the service account of its Deployment.
	Admin bool
	// Samples tells to apply the samples in config/samples.
	Samples bool
	// DebugPort is the port on which the debugger dlv serves. 0 runs without it.
	DebugPort int
	// Generate and Kustomize are command lines: kapok generate, which prints the files that it has
	// written, and kubectl kustomize, to which the directory is added.
	Generate, Kustomize []string
	// Config is for the server's admin, in this process, and Kubeconfig for a client in another one.
	Config     *rest.Config
	Kubeconfig []byte
	// Hurry is closed when the operator is not to have time to end. nil gives it some seconds.
	Hurry <-chan struct{}
	// Out gets all output as lines, unless there is a Sink.
	Out io.Writer
	// Sink shows the output. Default: Plain(Out).
	Sink Sink
	// Interval is the time between two looks for changes. Default: 300 ms.
	Interval time.Duration
}

type dev struct {
	Options
	lines       *output
	status      Status
	client      client.WithWatch
	manifests   set
	samples     set
	versions    map[string]string // resourceVersions that apply has answered, by key
	webhookPort int
	webhookCA   string // base64 PEM
	operator    *operator
	sum         string          // of the program that runs
	env         []string        // with which it was started
	generated   map[string]bool // the files that the last step has written
}

// Run runs the operator of a project until ctx is done. It returns an error only if it cannot
// begin.
func Run(ctx context.Context, o Options) error {
	if o.Sink == nil {
		o.Sink = Plain(o.Out)
	}
	d := &dev{Options: o, lines: &output{to: o.Sink}, manifests: set{}, samples: set{}, versions: map[string]string{}}
	if err := d.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan struct{})
	go func() { defer close(events); d.printEvents(ctx) }()
	defer func() {
		cancel()
		d.begins("ending")
		d.operator.end(d.Hurry)
		<-events
	}()
	return d.loop(ctx)
}

// CheckProject returns an error unless a directory is the root of a project.
func CheckProject(dir string) error {
	for _, name := range []string{"go.mod", "PROJECT", "config/default/kustomization.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("this directory is not the root of a project: it has no %s. kapok init creates a project", name)
		}
	}
	return nil
}

// begin checks the options, and makes what stays: the client and the credentials of webhooks.
func (d *dev) begin(ctx context.Context) error {
	if d.Main == "" {
		d.Main = "./cmd"
	}
	if d.Interval == 0 {
		d.Interval = 300 * time.Millisecond
	}
	if err := CheckProject(d.Project); err != nil {
		return err
	}
	if err := d.checkMain(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return err
	}
	var err error
	if d.client, err = client.NewWithWatch(d.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return fmt.Errorf("make a client of the server: %w", err)
	}
	if err := d.makeWebhookCredentials(); err != nil {
		return err
	}
	if d.Args == nil {
		d.Args = []string{
			"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false",
			"--webhook-cert-path=" + d.webhookDir(), "--webhook-cert-name=" + servingFile, "--webhook-cert-key=" + servingFile,
			fmt.Sprintf("--webhook-port=%d", d.webhookPort),
		}
	}
	return nil
}

// loop does all steps, and then those that changes need. What has failed stays due.
func (d *dev) loop(ctx context.Context) error {
	due := map[area]bool{source: true, config: true, samples: true}
	seen, err := look(d.Project)
	if err != nil {
		return fmt.Errorf("look for changes: %w", err)
	}
	ticks := time.NewTicker(d.Interval)
	defer ticks.Stop()
	for ctx.Err() == nil {
		begun := seen
		d.generated = nil
		if err := d.step(ctx, due); err == nil {
			due = map[area]bool{}
			d.report(func(s *Status) { s.Step, s.Error = "", "" })
		} else if ctx.Err() == nil {
			d.lines.printf("error", "%v", err)
			d.report(func(s *Status) { s.Step, s.Error = "", err.Error() })
			due = map[area]bool{source: true, config: true, samples: true}
		}
		// What this step has generated is no change, but what the user has changed meanwhile is.
		if seen, err = look(d.Project); err != nil {
			return fmt.Errorf("look for changes: %w", err)
		}
		changed := begun.changesTo(seen).without(d.generated)
		for len(changed.names) == 0 {
			if ended := d.await(ctx, ticks.C); ended {
				return nil
			}
			now, err := look(d.Project)
			if err != nil {
				return fmt.Errorf("look for changes: %w", err)
			}
			changed, seen = seen.changesTo(now), now
		}
		d.lines.printf("change", "%s", changed)
		maps.Copy(due, changed.areas)
	}
	return nil
}

// await waits for the next look for changes, and reports whether ctx has ended. It prints the end
// of the operator.
func (d *dev) await(ctx context.Context, tick <-chan time.Time) (ended bool) {
	var gone <-chan struct{}
	if d.operator != nil && !d.operator.reported {
		gone = d.operator.ended
	}
	select {
	case <-ctx.Done():
		return true
	case <-gone:
		d.operator.reported = true
		d.report(func(s *Status) { s.Since, s.Ended = time.Time{}, d.operator.state.String() })
		d.lines.printf("operator", "has ended: %s. It starts again after the next change.", d.operator.state)
	case <-tick:
	}
	return false
}

// step does what changes of files need.
func (d *dev) step(ctx context.Context, of map[area]bool) error {
	if of[source] {
		d.begins("generating")
		if err := d.generate(ctx); err != nil {
			return err
		}
	}
	if of[source] || of[config] {
		d.begins("applying manifests")
		m, err := d.render(ctx)
		if err != nil {
			return err
		}
		if err := d.apply(ctx, d.manifests, m.objects, of[config]); err != nil {
			return err
		}
		if err := d.deleteOthers(ctx, d.manifests, m.objects); err != nil {
			return err
		}
		d.begins("building")
		if err := d.restart(ctx, m); err != nil {
			return err
		}
	}
	if d.Samples {
		d.begins("applying samples")
		return d.applySamples(ctx, of[samples])
	}
	return nil
}

// generate runs kapok generate.
func (d *dev) generate(ctx context.Context) error {
	out, err := d.output(ctx, d.Generate)
	if err != nil {
		return err
	}
	d.generated = map[string]bool{}
	for name := range strings.Lines(string(out)) {
		name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
		d.generated[filepath.ToSlash(name)] = true
		d.lines.printf("generate", "%s", name)
	}
	return nil
}

// render returns the manifests of the project.
func (d *dev) render(ctx context.Context) (*manifests, error) {
	out, err := d.output(ctx, append(slices.Clone(d.Kustomize), "config/default"))
	if err != nil {
		return nil, err
	}
	return d.read(out)
}

// output runs a command line in the project, and returns what it prints.
func (d *dev) output(ctx context.Context, args []string) ([]byte, error) {
	var stderr bytes.Buffer
	c := d.command(ctx, args[0], args[1:]...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		text := cmp.Or(strings.TrimSpace(stderr.String()), err.Error())
		return nil, fmt.Errorf("%s:\n%s", strings.Join(append([]string{filepath.Base(args[0])}, args[1:]...), " "), strings.TrimPrefix(text, "kapok: "))
	}
	return out, nil
}

// restart builds the operator, and starts it if the program or its environment has changed.
func (d *dev) restart(ctx context.Context, m *manifests) error {
	begin := time.Now()
	program, sum, err := d.build(ctx)
	if err != nil {
		return err
	}
	if d.operator.running() && sum == d.sum && slices.Equal(d.env, m.env) {
		return os.Remove(program + ".new")
	}
	d.lines.printf("build", "%s in %.1f s", d.Main, time.Since(begin).Seconds())
	kubeconfig, err := d.kubeconfigFor(ctx, m)
	if err != nil {
		return err
	}
	d.operator.end(d.Hurry)
	d.report(func(s *Status) { s.Since, s.Ended = time.Time{}, "" })
	if d.operator, err = d.start(ctx, program, append([]string{"KUBECONFIG=" + kubeconfig}, m.env...)); err != nil {
		return err
	}
	d.report(func(s *Status) { s.Since = time.Now() })
	d.sum, d.env = sum, m.env
	return nil
}
