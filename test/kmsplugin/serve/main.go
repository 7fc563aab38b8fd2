// Command serve is a KMS plugin to try encryption at rest with:
//
//	go run ./test/kmsplugin/serve SOCKET KEY
//
// It protects nothing: the secret of the key is derived from its name, KEY. It runs until it gets a
// signal.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kapok-dev/kapok/test/kmsplugin"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: serve SOCKET KEY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(socket, key string) error {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	server, err := kmsplugin.Serve(socket, kmsplugin.New(key))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Close()
	return nil
}
