package manager

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigFlag is the name of the flag.
const kubeconfigFlag = "kubeconfig"

// RegisterFlags adds the flag --kubeconfig to flags, or to flag.CommandLine if flags is nil. It
// does nothing if the flag is defined already. Call it before flag.Parse: no import registers the
// flag. GetConfig reads the flag of flag.CommandLine only.
func RegisterFlags(flags *flag.FlagSet) {
	if flags == nil {
		flags = flag.CommandLine
	}
	if flags.Lookup(kubeconfigFlag) == nil {
		flags.String(kubeconfigFlag, "", "Path to a kubeconfig. Only required if out-of-cluster.")
	}
}

// GetConfig returns the configuration for the API server. It uses the first of these that is
// present: the file of the flag --kubeconfig, the files of $KUBECONFIG, the service account of a
// pod, $HOME/.kube/config. QPS of the result is -1: the client does not limit its rate, as the
// server does.
func GetConfig() (*rest.Config, error) { return GetConfigWithContext("") }

// GetConfigWithContext is GetConfig with another context of the kubeconfig than the current one. ""
// is the current one.
func GetConfigWithContext(context string) (*rest.Config, error) {
	cfg, err := loadConfig(context)
	if err != nil {
		return nil, fmt.Errorf("configuration for the API server: %w", err)
	}
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	return cfg, nil
}

// GetConfigOrDie is GetConfig that logs an error and exits with code 1.
func GetConfigOrDie() *rest.Config {
	cfg, err := GetConfig()
	if err != nil {
		Log.Error(err, "Cannot start")
		os.Exit(1)
	}
	return cfg
}

func loadConfig(context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // $KUBECONFIG, else the file in the home directory
	if f := flag.Lookup(kubeconfigFlag); f != nil && f.Value.String() != "" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: f.Value.String()}
	} else if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if cfg, err := rest.InClusterConfig(); err == nil {
			return cfg, nil
		}
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context, ClusterInfo: clientcmdapi.Cluster{}}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}
