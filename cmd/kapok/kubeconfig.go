package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// configOf returns the configuration of a context in a kubeconfig, or in those of the environment;
// "" is the current context. Unlike kubectl, it does not fall back to a file in the home directory:
// what writes much must only run against a cluster that was named explicitly.
func configOf(kubeconfig, context string) (*rest.Config, error) {
	config, _, err := configAndNamespaceOf(kubeconfig, context)
	return config, err
}

// configAndNamespaceOf is configOf with the namespace of the context.
func configAndNamespaceOf(kubeconfig, context string) (config *rest.Config, namespace string, err error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	from := kubeconfig
	if from == "" {
		from = os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
		rules.Precedence = filepath.SplitList(from)
	}
	if from == "" {
		return nil, "", errors.New("no server given: set --kubeconfig FILE or $KUBECONFIG")
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	if config, err = loaded.ClientConfig(); err == nil {
		namespace, _, err = loaded.Namespace()
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("kubeconfig %s is empty or does not exist", from)
	case err != nil:
		return nil, "", fmt.Errorf("kubeconfig %s: %w", from, err)
	}
	return config, namespace, nil
}
