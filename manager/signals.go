package manager

import (
	"context"
	"os"
	"os/signal"
)

// SetupSignalHandler returns a context that is canceled by the first SIGINT or SIGTERM (on Windows:
// os.Interrupt). The second exits with code 1. Call it once, in main; its goroutine runs until the
// program exits.
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
