package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/client-go/rest"
)

// notifySystemd tells systemd that the server is ready, if the process is a service of Type=notify,
// and then, if the service has a watchdog, that it lives: each half of WatchdogSec in which /livez
// answers. systemd restarts a service that does not. stop tells systemd that the server stops, and
// waits for what this function has started; it may be called again.
//
// Without systemd it does nothing.
func notifySystemd(ctx context.Context, server *kapok.Server, log *slog.Logger) (stop func(), err error) {
	if sent, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return nil, fmt.Errorf("tell systemd that the server is ready: %w", err)
	} else if !sent {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) // systemd also sees the process end
	})
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		close(done)
		return stop, err
	}
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		close(done)
		return stop, err
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(every / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := lives(ctx, client, every/2)
			if err == nil {
				_, err = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
			}
			if err != nil && ctx.Err() == nil {
				log.Error("systemd's watchdog is not told that the server lives", "err", err)
			}
		}
	}()
	return stop, nil
}

// lives returns an error if the server does not answer within a time that it lives.
func lives(ctx context.Context, client *http.Client, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kapok/livez", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/livez: %s", response.Status)
	}
	return nil
}
