//go:build !nokubectl

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// chooseServer are the flags of kubectl that choose a server, or something in a kubeconfig.
var chooseServer = []string{"--kubeconfig", "--context", "--cluster", "--user", "--server", "-s"}

// useRunningServer points kubectl at the server that runs on the default data directory, unless the
// environment or the command line names another one. It takes precedence over ~/.kube/config: kapok
// kubectl next to a running kapok up means that server, and must not change another cluster. A
// kubeconfig whose server does not run, such as one left behind by a killed server, is not used.
func useRunningServer(args []string) {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" || slices.ContainsFunc(args, choosesServer) {
		return
	}
	file, err := defaultKubeconfig()
	if err != nil {
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err == nil && answers(config) {
		os.Setenv(clientcmd.RecommendedConfigPathEnvVar, file) // for plugins of kubectl, too
		return
	}
	if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return
	}
	util.BehaviorOnFatal(func(text string, code int) {
		if text = strings.TrimSuffix(text, "\n"); text != "" {
			fmt.Fprintln(os.Stderr, text)
		}
		if strings.Contains(text, noServer) {
			fmt.Fprintf(os.Stderr, "kapok: no server runs on %s and there is no kubeconfig: start a server with kapok up, or set KUBECONFIG\n", file)
		}
		os.Exit(code)
	})
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
	conn.Close()
	return true
}
