package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/tour"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func newTour() *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use:   "tour",
		Short: "See in five minutes what the API of Kubernetes does",
		Long: `See in five minutes what the API of Kubernetes does, command by command.

The tour starts a server in memory, with Kubernetes' controllers and simulated nodes. It shows each
command before it runs it. When it ends, nothing is left of it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return failed(runTour(c, yes)) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not wait for Enter before each command (default where the input is no terminal)")
	return c
}

func runTour(c *cobra.Command, yes bool) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kapok-tour-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, _, stop := interrupts(c.Context())
	defer stop()
	out := colorprofile.NewWriter(c.OutOrStdout(), os.Environ())
	o := tour.Options{
		Kubectl: []string{self, "kubectl"}, Kubeconfig: filepath.Join(dir, "kubeconfig"), Dir: filepath.Join(dir, "files"), Out: out,
	}
	if !yes && isInteractive(c.InOrStdin()) {
		o.In = c.InOrStdin()
	}
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return err
	}
	kubelet, metrics := &simulated.Kubelet{}, &simulated.Metrics{}
	server, err := kapok.Start(ctx, kapok.Options{
		Listen: "127.0.0.1:0", Kubeconfig: o.Kubeconfig,
		Logger: slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError})),
		Controllers: kapok.Together{
			controllers.Options{Names: []string{"*"}},
			simulated.Options{Nodes: 2, Kubelet: kubelet, Metrics: metrics}, scheduler.Options{},
		},
		Nodes:       kapok.NodeOptions{Kubelets: kubelet.Handler},
		Aggregation: kapok.AggregationOptions{Handlers: map[schema.GroupVersion]http.Handler{simulated.MetricsVersion: metrics}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	fmt.Fprint(out, "A server runs in the memory of this process, with two simulated nodes.\n\n")
	switch err := tour.Run(ctx, o, tour.Steps()); {
	case errors.Is(err, tour.ErrQuit), err != nil && ctx.Err() != nil:
		fmt.Fprint(out, "\nThe server has stopped. Nothing is left of the tour.\n")
		return nil
	case err != nil:
		return err
	}
	fmt.Fprint(out, `That was the tour; nothing is left of it. Next:

  kapok up                  a server that keeps its data
  kapok up --nodes 3        the same, with nodes that run pods
  kapok init --help         an operator of your own: docs/toolkit.md
`)
	return nil
}

// isInteractive reports whether an input is a terminal.
func isInteractive(in io.Reader) bool {
	f, isFile := in.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}
