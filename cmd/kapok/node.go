package main

import (
	"github.com/spf13/cobra"
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
type nodeServer struct{ kubeconfig, context string }

func (s *nodeServer) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of an admin of the server (default $KUBECONFIG)")
	c.Flags().StringVar(&s.context, "context", "", "context of the kubeconfig (default its current one)")
}
