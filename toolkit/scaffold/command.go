package scaffold

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"sigs.k8s.io/kubebuilder/v4/pkg/cli"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	kustomizev2 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/common/kustomize/v2"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang"
	deployimage "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/deploy-image/v1alpha1"
	golangv4 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/v4"
	grafana "sigs.k8s.io/kubebuilder/v4/pkg/plugins/optional/grafana/v1alpha"
)

// Commands are the first words of the command lines that Run takes.
var Commands = []string{"init", "create", "edit"}

// Options configure Run.
type Options struct {
	// Args is the command line, without the name of the program.
	Args []string
	// Version of Kapok that projects require, such as v0.3.0. Default: the newest.
	Version string
	// Source is a directory with the source of Kapok, which projects use instead of a published
	// version. Default: none.
	Source string
	// RenderOnly leaves out what follows the scaffolds: downloads, and generated files.
	RenderOnly bool
	// Stderr receives what is done, and errors. Default: os.Stderr.
	Stderr io.Writer
}

// Run executes a command line in the working directory. If it fails, or if the process is
// interrupted meanwhile, the files of the project are as they were.
func Run(o Options) error {
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	slog.SetDefault(slog.New(plain{o.Stderr}))
	was := os.Args
	defer func() { os.Args = was }()
	os.Args = append([]string{"kapok"}, o.Args...) // cli.New reads them
	if slices.Contains(o.Args, "--help") || slices.Contains(o.Args, "-h") {
		return run(o) // which changes nothing
	}
	return whole(func() error { return run(o) })
}

// whole runs a function that changes the project in the working directory. If it fails, or if the
// process is interrupted meanwhile, the files of the project are as they were.
func whole(change func() error) error {
	project, err := take(".")
	if err != nil {
		return fmt.Errorf("read the project before changing it: %w", err)
	}
	var interrupted atomic.Bool
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stop)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop: // the go command that may run has got it, too, and ends
			interrupted.Store(true)
		case <-done:
		}
	}()
	err = change()
	close(done)
	<-ended
	if err == nil && interrupted.Load() {
		err = errors.New("interrupted")
	}
	if err == nil {
		return nil
	}
	switch aside, undo := project.restore(); {
	case undo != nil:
		return fmt.Errorf("%w; what was changed could not be undone: %w", err, undo)
	case aside != "":
		return fmt.Errorf("%w\nThe project is as it was before. The files of this attempt are in %s", err, aside)
	}
	return err
}

func run(o Options) error {
	ours := &kapokPlugin{version: o.Version, source: o.Source, renderOnly: o.RenderOnly, out: o.Stderr}
	bundle, err := plugin.NewBundleWithOptions(
		plugin.WithName(golang.DefaultNameQualifier),
		plugin.WithVersion(plugin.Version{Number: 4}),
		plugin.WithPlugins(kustomizev2.Plugin{}, &quietPlugin{}, ours),
		plugin.WithDescription("kubebuilder's project, with tests on Kapok"),
	)
	if err != nil {
		return err
	}
	image, err := plugin.NewBundleWithOptions(
		plugin.WithName(deployimage.Plugin{}.Name()),
		plugin.WithVersion(deployimage.Plugin{}.Version()),
		plugin.WithPlugins(&imagePlugin{}, ours),
		plugin.WithDescription(deployimage.Plugin{}.Description()),
	)
	if err != nil {
		return err
	}
	c, err := cli.New(
		cli.WithCommandName("kapok"),
		cli.WithDescription("Make and extend the project of an operator. PROJECT and layout are those of kubebuilder 4.\n"),
		cli.WithPlugins(bundle, golangv4.Plugin{}, kustomizev2.Plugin{}, ours, image, &helmPlugin{out: o.Stderr}, &grafana.Plugin{}),
		cli.WithDefaultPlugins(cfgv3.Version, bundle),
		cli.WithDefaultProjectVersion(cfgv3.Version),
		cli.WithFilesystem(fileSystem()),
		// PROJECT says which scaffolds of kubebuilder the project has, for kubebuilder alpha update.
		cli.WithCliVersion(strings.TrimPrefix(generate.VersionOf("sigs.k8s.io/kubebuilder/v4"), "v")),
	)
	if err != nil {
		return err
	}
	root := c.Command()
	root.SilenceUsage, root.SilenceErrors = true, true
	err = c.Run()
	if err != nil && strings.Contains(err.Error(), `key "go.kubebuilder.io/v3"`) {
		return errors.New("the project has the layout of kubebuilder 3: kapok alpha generate scaffolds it again with that of kubebuilder 4")
	}
	if err != nil && strings.Contains(err.Error(), "cannot determine module path for source directory") {
		return errors.New("this directory belongs to no module: name the one of the project, as --repo example.com/project")
	}
	if inner := errors.Unwrap(err); inner != nil { // without the prefix "error executing command"
		err = inner
	}
	if err == nil {
		return nil
	}
	return plainError{err}
}

// A plainError is an error without the plugins that it went through.
type plainError struct{ error }

// throughPlugins matches what kubebuilder adds to the errors of plugins.
var throughPlugins = regexp.MustCompile(`unable to [a-z- ]+ "[^"]*": |error validating resource: `)

func (e plainError) Error() string { return throughPlugins.ReplaceAllString(e.error.Error(), "") }

func (e plainError) Unwrap() error { return e.error }
