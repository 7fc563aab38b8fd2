package oracle

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// The environment variables that make a test binary of this package a component: see
// RunControllerManager.
const (
	asControllerManager = "KAPOK_ORACLE_CONTROLLER_MANAGER"
	asScheduler         = "KAPOK_ORACLE_SCHEDULER"
)

// controllerFlags make kube-controller-manager comparable and quick: its rates do not limit it, and
// what it does by the clock comes often.
var controllerFlags = []string{
	"--leader-elect=false",
	"--secure-port=0",
	"--kube-api-qps=2000",
	"--kube-api-burst=2000",
	"--horizontal-pod-autoscaler-sync-period=1s",
	"--endpointslice-updates-batch-period=0s",
	"--endpoint-updates-batch-period=0s",
	"--mirroring-endpointslice-updates-batch-period=0s",
	"--pvclaimbinder-sync-period=1s",
}

// asServer is the environment variable that makes a test binary of this package a server with its
// files in the directory that is its value: kube-apiserver's globals allow one in a process.
const asServer = "KAPOK_ORACLE_SERVER"

// RunServer runs a server if this process was started to be one, and does not return then. TestMain
// calls it.
func RunServer() {
	dir := os.Getenv(asServer)
	if dir == "" {
		return
	}
	s, err := Start(context.Background(), dir, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.host)
	_, _ = io.Copy(io.Discard, os.Stdin) // until StartServer's stop
	_ = s.Stop()
	os.Exit(0)
}

// StartServer starts a server in a process of its own, with its files in dir. more are further
// flags of kube-apiserver.
func StartServer(dir string, more ...string) (config *rest.Config, stop func(), err error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	p := exec.Command(binary, more...)
	p.Env = append(os.Environ(), asServer+"="+dir)
	in, err := p.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := p.Start(); err != nil {
		return nil, nil, fmt.Errorf("start kube-apiserver: %w", err)
	}
	stop = func() {
		_ = in.Close()
		_ = p.Wait()
	}
	host, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("kube-apiserver ended before it was ready: %w", err)
	}
	s := &Server{host: strings.TrimSpace(host), ca: filepath.Join(dir, "certs", "apiserver.crt")}
	return s.Config(), stop, nil
}

// RunControllerManager runs kube-controller-manager if this process was started to be one, and
// does not return then. TestMain calls it.
func RunControllerManager() { runIf(asControllerManager, app.NewControllerManagerCommand) }

// RunScheduler is RunControllerManager for kube-scheduler.
func RunScheduler() {
	runIf(asScheduler, func() *cobra.Command { return schedulerapp.NewSchedulerCommand() })
}

func runIf(variable string, command func() *cobra.Command) {
	if os.Getenv(variable) == "" {
		return
	}
	if err := command().Execute(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// A Component is a running kube-controller-manager or kube-scheduler, a process of this binary:
// their globals are those of kube-apiserver, so that these cannot share a process.
type Component struct{ process *exec.Cmd }

// StartControllerManager starts a kube-controller-manager for the server of config, with its files
// in dir, its log in log, and flags besides those of every scenario.
func StartControllerManager(config *rest.Config, dir string, log io.Writer, flags ...string) (*Component, error) {
	return startComponent(asControllerManager, "kube-controller-manager", config, dir, log, slices.Concat([]string{"--root-ca-file=" + config.CAFile}, controllerFlags, flags))
}

// StartScheduler starts a kube-scheduler whose requests are not limited.
func StartScheduler(config *rest.Config, dir string, log io.Writer) (*Component, error) {
	return startComponent(asScheduler, "kube-scheduler", config, dir, log, []string{
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=100000", "--kube-api-burst=100000",
	})
}

// startComponent starts this binary as the component that the variable stands for. Field managers
// and user agents are named after the program.
func startComponent(variable, program string, config *rest.Config, dir string, log io.Writer, flags []string) (*Component, error) {
	kubeconfig, err := writeKubeconfig(config, dir, variable)
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := exec.Command(binary, append([]string{"--kubeconfig=" + kubeconfig}, flags...)...)
	p.Args[0] = program
	p.Env = append(os.Environ(), variable+"=yes")
	p.Stdout, p.Stderr = log, log
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("start a component: %w", err)
	}
	return &Component{p}, nil
}

// writeKubeconfig writes the kubeconfig of a client into dir, and returns its path.
func writeKubeconfig(config *rest.Config, dir, name string) (string, error) {
	file := filepath.Join(dir, name+".kubeconfig")
	return file, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthority: config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)
}

// Stop kills the process and waits for it.
func (c *Component) Stop() {
	_ = c.process.Process.Kill()
	_ = c.process.Wait()
}
