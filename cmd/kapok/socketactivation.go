package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/pflag"
)

// inherit takes the socket that systemd has opened for this service, if there is one: connections
// wait there while the server starts, or starts again.
func (u *up) inherit(f *pflag.FlagSet) error {
	listeners, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("sockets of systemd: %w", err)
	}
	if len(listeners) == 0 {
		return nil
	}
	listener, ok := listeners[0].(*net.TCPListener)
	switch {
	case len(listeners) > 1:
		return fmt.Errorf("systemd has opened %d sockets: want one of TCP (ListenStream=HOST:PORT)", len(listeners))
	case !ok:
		return errors.New("the socket that systemd has opened is none of TCP: want ListenStream=HOST:PORT")
	case !accepts(listener):
		return errors.New("the socket that systemd has opened accepts no connections: want Accept=no, the default, in the .socket unit")
	case f.Changed("listen"):
		return errors.New("--listen is set, and systemd has opened a socket: remove one of them")
	case u.detach:
		return errors.New("--detach is set, and systemd has opened a socket: the service must not end before its server")
	}
	u.options.Listener = listener
	return f.Set("listen", listener.Addr().String())
}
