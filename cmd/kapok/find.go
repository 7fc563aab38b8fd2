package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// instanceVariable names the instance that a command without a name means.
const instanceVariable = "KAPOK_INSTANCE"

func instances() (instance.Home, error) {
	dir, err := defaultDataDir()
	if err != nil {
		return instance.Home{}, fmt.Errorf("no directory for instances: %w", err)
	}
	return instance.Home{Dir: dir}, nil
}

// chosen returns the instance that a command means: that of the name, of $KAPOK_INSTANCE, of the
// project of the working directory, or the default one. implied reports whether neither named it.
func chosen(name string) (i instance.Instance, p *instance.Project, implied bool, err error) {
	home, err := instances()
	if err != nil {
		return i, nil, false, err
	}
	if name == "" {
		name = os.Getenv(instanceVariable)
	}
	if name != "" {
		i, err = home.Named(name)
		return i, nil, false, err
	}
	if p, err = projectHere(); err != nil {
		return i, nil, true, err
	}
	name = instance.Default
	if p != nil {
		name = p.Name()
	}
	i, err = home.Named(name)
	return i, p, true, err
}

func projectHere() (*instance.Project, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, nil // a directory that was deleted is in no project
	}
	return instance.FindProject(here)
}

// isRunning reports whether the server of an instance runs. One that runs on its directory by
// --data-dir does not hold the lock, but answers.
func isRunning(i instance.Instance) bool {
	if _, locked := i.Locked(); locked {
		return true
	}
	config, err := clientcmd.BuildConfigFromFlags("", i.Kubeconfig())
	return err == nil && answers(config)
}

// instanceFlag is the flag of commands that work with a running server.
type instanceFlag struct{ name string }

func (f *instanceFlag) flag(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "instance", "", "instance of kapok up (default $"+instanceVariable+", that of the project, or the one that runs)")
	_ = c.RegisterFlagCompletionFunc("instance", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return instanceNames(), cobra.ShellCompDirectiveNoFileComp
	})
}

// find returns the instance whose server a command uses: the one that is named, that of the
// project, the default one, or, if that does not run, the only one that does. It returns nil if
// none of these runs.
func (f *instanceFlag) find() (*instance.Instance, error) {
	i, project, implied, err := chosen(f.name)
	switch {
	case err != nil:
		return nil, err
	case isRunning(i):
		return &i, nil
	case !implied:
		return nil, notRunning(i)
	case project != nil:
		return nil, fmt.Errorf("the instance of the project %s is not running: start it with kapok up", project.Dir)
	}
	home, err := instances()
	if err != nil {
		return nil, err
	}
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	var running []instance.Instance
	var names []string
	for _, i := range all {
		if isRunning(i) {
			running, names = append(running, i), append(names, i.Name)
		}
	}
	switch len(running) {
	case 0:
		return nil, nil
	case 1:
		return &running[0], nil
	}
	return nil, fmt.Errorf("several instances run: %s: choose one with --instance or $%s", strings.Join(names, ", "), instanceVariable)
}

func notRunning(i instance.Instance) error {
	if !i.Exists() {
		return fmt.Errorf("instance %s does not exist: kapok list prints those that do, and kapok up %s creates it", i.Name, i.Name)
	}
	return fmt.Errorf("instance %s is not running: start it with kapok up %s", i.Name, i.Name)
}

// kubeconfig returns the file for a server: that of the flag, $KUBECONFIG as "", or that of the
// instance that find returns, also "" if there is none. An instance that is named comes before
// $KUBECONFIG.
func (f *instanceFlag) kubeconfig(flag string) (string, error) {
	named := f.name != "" || os.Getenv(instanceVariable) != ""
	if flag != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" && !named {
		return flag, nil
	}
	i, err := f.find()
	if err != nil || i == nil {
		return "", err
	}
	return i.Kubeconfig(), nil
}

// answers reports whether the server of a configuration responds with the certificate that the
// configuration expects.
func answers(config *rest.Config) bool {
	at, err := url.Parse(config.Host)
	if err != nil || at.Scheme != "https" {
		return false
	}
	host := at.Host
	if at.Port() == "" {
		host = net.JoinHostPort(at.Hostname(), "443")
	}
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: settings}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	return errors.Join(conn.Close()) == nil
}

// instanceNames are the names of all instances, for completion.
func instanceNames() []cobra.Completion {
	home, err := instances()
	if err != nil {
		return nil
	}
	all, err := home.List()
	if err != nil {
		return nil
	}
	var names []cobra.Completion
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

// completeInstance completes the argument NAME.
func completeInstance(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return instanceNames(), cobra.ShellCompDirectiveNoFileComp
}
