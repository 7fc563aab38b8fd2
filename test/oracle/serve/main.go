// Command serve starts the oracle and keeps it running, for requests with kubectl or curl.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/kapok-dev/kapok/test/oracle"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := oracle.Start(ctx, dir)
	if err != nil {
		return err
	}
	c := server.Config()
	fmt.Printf("kubectl --server=%s --token=%s --certificate-authority=%s\n", c.Host, c.BearerToken, c.CAFile)
	<-ctx.Done()
	return server.Stop()
}
