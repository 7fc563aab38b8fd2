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

// RegisterFlags adds the flag --kubeconfig to flags, flag.CommandLine if that is nil, unless there is one of this name. Call it before
// flag.Parse: nothing is registered by itself. GetConfig looks at the flag of flag.CommandLine only.
func RegisterFlags(flags *flag.FlagSet) {
	if flags == nil {
		flags = flag.CommandLine
	}
	if flags.Lookup(kubeconfigFlag) == nil {
		flags.String(kubeconfigFlag, "", "Path to a kubeconfig. Only required if out-of-cluster.")
	}
}

// GetConfig finds out how to reach the API server: by the file of the flag --kubeconfig, if there is one; by the files of $KUBECONFIG;
// as a pod does; or by $HOME/.kube/config; the first of these that there is. Requests are not limited in rate, unless QPS is set
// in what it returns: the server does so.
func GetConfig() (*rest.Config, error) { return GetConfigWithContext("") }

// GetConfigWithContext is GetConfig with a context of the kubeconfig other than the current one.
func GetConfigWithContext(context string) (*rest.Config, error) {
	cfg, err := loadConfig(context)
	if err != nil {
		return nil, fmt.Errorf("how to reach the API server: %w", err)
	}
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	return cfg, nil
}

// GetConfigOrDie is GetConfig, and ends the program with code 1 if that fails.
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
