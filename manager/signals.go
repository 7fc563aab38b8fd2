package manager

import (
	"context"
	"os"
	"os/signal"
)

// SetupSignalHandler returns a context that ends with the first SIGINT or SIGTERM (on Windows: interrupt). The second ends the program
// with code 1. Call it once, in main; its goroutine lives as long as the program.
func SetupSignalHandler() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, shutdownSignals()...)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}
