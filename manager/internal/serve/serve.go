// Package serve runs the HTTP servers of a manager.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

// courtesy is the time that active requests have to finish after a server starts to stop.
const courtesy = 5 * time.Second

// HTTP serves requests of a listener until ctx ends, and then waits for active requests for up to
// 5 s. It closes the listener. The contexts of requests have the values of ctx. name is used in
// messages.
func HTTP(ctx context.Context, name string, listener net.Listener, handler http.Handler, logger logr.Logger) error {
	logger.Info("Serving", "server", name, "address", listener.Addr().String())
	server := &http.Server{
		Handler:           handler,
		MaxHeaderBytes:    1 << 20,
		IdleTimeout:       90 * time.Second,
		ReadHeaderTimeout: 32 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s server: %w", name, err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), courtesy)
	defer cancel()
	err := server.Shutdown(last)
	if err != nil {
		err = errors.Join(fmt.Errorf("%s server: %w", name, err), server.Close())
	}
	<-served
	return err
}
