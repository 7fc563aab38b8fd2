package main

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
)

func newNode() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "Let kubelets join"}
	token := &cobra.Command{Use: "token", Short: "Create, list and delete bootstrap tokens"}
	token.AddCommand(newTokenCreate(), newTokenList(), newTokenDelete())
	c.AddCommand(newNodeJoin(), token)
	group(token)
	group(c)
	return c
}

// nodeServer are the flags for the server of kapok node.
type nodeServer struct {
	instance            instanceFlag
	kubeconfig, context string
}

func (s *nodeServer) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of an admin of the server (default $KUBECONFIG, or that of the instance)")
	c.Flags().StringVar(&s.context, "context", "", "context of the kubeconfig (default its current one)")
	s.instance.flag(c)
	exclude(c, "instance", "kubeconfig")
}

func (s *nodeServer) config() (*rest.Config, error) {
	file, err := s.instance.kubeconfig(s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return configOf(file, s.context)
}
