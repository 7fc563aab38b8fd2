package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// An instanceView is an instance as list and status print it.
type instanceView struct {
	Name       string     `json:"name"`
	State      string     `json:"state"` // running, starting, not ready, stopped
	Address    string     `json:"address,omitempty"`
	Process    int        `json:"process,omitempty"`
	Started    *time.Time `json:"started,omitempty"`
	Directory  string     `json:"directory"`
	Store      string     `json:"store,omitempty"`
	Kubeconfig string     `json:"kubeconfig,omitempty"`
	Context    string     `json:"context,omitempty"`
	Project    string     `json:"project,omitempty"`
	Port       int        `json:"port,omitempty"`
	Problem    string     `json:"problem,omitempty"`
}

const (
	stateRunning  = "running"
	stateStarting = "starting"
	stateNotReady = "not ready"
	stateStopped  = "stopped"
)

// viewOf looks at an instance. An instance that runs is asked if it is ready.
func viewOf(ctx context.Context, i instance.Instance) instanceView {
	v := instanceView{Name: i.Name, State: stateStopped, Directory: i.Dir}
	r, err := i.Record()
	if err != nil {
		v.Problem = err.Error()
	}
	v.Project, v.Port = r.Project, r.Port
	if len(r.Kubeconfigs) > 0 {
		v.Context = i.Context()
	}
	id, locked := i.Locked()
	if !locked && !isRunning(i) {
		return v
	}
	config, err := clientcmd.BuildConfigFromFlags("", i.Kubeconfig())
	if err != nil {
		v.State, v.Process = stateStarting, id
		return v
	}
	v.State, v.Process, v.Kubeconfig, v.Address = stateRunning, id, i.Kubeconfig(), config.Host
	if locked && r.Process != nil {
		v.Started, v.Store = &r.Process.Started, r.Process.Store
	}
	if !serverIsReady(ctx, config) {
		v.State = stateNotReady
	}
	return v
}

// serverIsReady reports whether a server says so within 2 seconds.
func serverIsReady(ctx context.Context, config *rest.Config) bool {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

func newList() *cobra.Command {
	var as output
	c := &cobra.Command{
		Use:   "list",
		Short: "List the instances of kapok up",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return failed(list(c.Context(), as, c.OutOrStdout()))
		},
	}
	as.flag(c)
	return c
}

func list(ctx context.Context, as output, stdout io.Writer) error {
	home, err := instances()
	if err != nil {
		return err
	}
	all, err := home.List()
	if err != nil {
		return err
	}
	views := []instanceView{}
	for _, i := range all {
		views = append(views, viewOf(ctx, i))
	}
	if as == asJSON {
		return printJSON(stdout, views)
	}
	if len(views) == 0 {
		_, err := fmt.Fprintln(stdout, "There are no instances: kapok up starts one.")
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tADDRESS\tPROCESS\tPROJECT")
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Name, v.State, orNone(v.Address), orNone(number(v.Process)), orNone(v.Project))
	}
	return w.Flush()
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func newStatus() *cobra.Command {
	var as output
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Print the state of an instance",
		Long: `Print the state of an instance. The exit code is 1 unless it runs and is ready.

NAME is by default $KAPOK_INSTANCE, the instance of the project, or "default".`,
		Args:              maybeOneArg("NAME"),
		ValidArgsFunction: completeInstance,
		RunE: func(c *cobra.Command, args []string) error {
			i, err := existing(args)
			if err != nil {
				return failed(err)
			}
			return failed(printStatus(c.Context(), i, as, c.OutOrStdout()))
		},
	}
	as.flag(c)
	return c
}

// existing returns the instance of the argument of a command, which must exist.
func existing(args []string) (instance.Instance, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	i, _, _, err := chosen(name)
	if err == nil && !i.Exists() {
		err = notRunning(i)
	}
	return i, err
}

func printStatus(ctx context.Context, i instance.Instance, as output, stdout io.Writer) error {
	v := viewOf(ctx, i)
	if as == asJSON {
		if err := printJSON(stdout, v); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
		row := func(name, value string) {
			if value != "" {
				fmt.Fprintf(w, "%s\t%s\n", name, printable(value))
			}
		}
		row("instance", v.Name)
		row("state", v.State)
		row("address", v.Address)
		row("process", number(v.Process))
		if v.Started != nil {
			row("started", v.Started.Format(time.RFC3339))
		}
		row("directory", v.Directory)
		row("store", v.Store)
		row("kubeconfig", v.Kubeconfig)
		row("context", v.Context)
		row("project", v.Project)
		if v.State == stateStopped {
			row("port", number(v.Port))
		}
		row("problem", v.Problem)
		row("log", filepath.Join(i.Log()))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	switch {
	case v.State == stateStopped:
		return fmt.Errorf("instance %s is not running", i.Name)
	case v.State != stateRunning:
		return errors.New("the server is not ready")
	}
	return nil
}
