//go:build !nokubectl

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// chooseServer are the flags of kubectl that choose a server, or something in a kubeconfig.
var chooseServer = []string{"--kubeconfig", "--context", "--cluster", "--user", "--server", "-s"}

// useRunningServer points kubectl at the running instance, unless the environment or the command
// line names another server, and returns the arguments without a leading --instance NAME. The
// instance takes precedence over ~/.kube/config: kapok kubectl next to a running kapok up means
// that server, and must not change another cluster. A kubeconfig whose server does not run, such as
// one left behind by a killed server, is not used.
func useRunningServer(args []string) ([]string, error) {
	var f instanceFlag
	if len(args) > 0 {
		name, assigned := strings.CutPrefix(args[0], "--instance=")
		switch {
		case assigned:
			f.name, args = name, args[1:]
		case args[0] == "--instance" && len(args) > 1:
			f.name, args = args[1], args[2:]
		}
		if f.name == "" && (assigned || len(args) > 0 && args[0] == "--instance") {
			return nil, errors.New("--instance needs a value: the name of an instance")
		}
	}
	if slices.ContainsFunc(args, choosesServer) {
		return args, nil
	}
	named := f.name != "" || os.Getenv(instanceVariable) != ""
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" && !named {
		return args, nil
	}
	i, err := f.find()
	if i != nil {
		os.Setenv(clientcmd.RecommendedConfigPathEnvVar, i.Kubeconfig()) // for plugins of kubectl, too
		return args, nil
	}
	if err != nil && named {
		return nil, err
	}
	hint := "there is no kubeconfig: start a server with kapok up, or set KUBECONFIG"
	if err != nil {
		hint = err.Error()
	} else if file, err := defaultKubeconfig(); err == nil {
		hint = "no server runs on " + file + " and " + hint
	}
	if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return args, nil
	}
	util.BehaviorOnFatal(func(text string, code int) {
		if text = strings.TrimSuffix(text, "\n"); text != "" {
			fmt.Fprintln(os.Stderr, text)
		}
		if strings.Contains(text, noServer) {
			fmt.Fprintf(os.Stderr, "kapok: %s\n", hint)
		}
		os.Exit(code)
	})
	return args, nil
}

// noServer is kubectl's default address of the server.
const noServer = "localhost:8080"

// choosesServer reports whether an argument selects a server.
func choosesServer(arg string) bool {
	return slices.ContainsFunc(chooseServer, func(flag string) bool {
		rest, found := strings.CutPrefix(arg, flag)
		return found && (rest == "" || rest[0] == '=' || !strings.HasPrefix(flag, "--"))
	})
}
