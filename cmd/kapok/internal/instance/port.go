package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

const (
	firstPort = 6443
	lastPort  = firstPort + 1000
)

// TakePort returns a port of this machine for an instance whose lock the caller holds: the one it
// had, or the first that is free and that no other instance remembers. It is in the record then.
func (h Home) TakePort(ctx context.Context, i Instance, r *Record) (port int, err error) {
	return h.takePort(ctx, i, r, isFree)
}

func (h Home) takePort(ctx context.Context, i Instance, r *Record, free func(port int) bool) (port int, err error) {
	err = h.exclusively(ctx, func() error {
		if r.Port != 0 && free(r.Port) {
			port = r.Port
			return nil
		}
		all, err := h.List()
		if err != nil {
			return err
		}
		taken := map[int]bool{}
		for _, other := range all {
			if remembers, err := other.Record(); err == nil && other.Name != i.Name {
				taken[remembers.Port] = true
			}
		}
		for port = firstPort; taken[port] || !free(port); port++ {
			if port == lastPort {
				return fmt.Errorf("no port from %d to %d is free: choose one with --listen 127.0.0.1:PORT", firstPort, lastPort)
			}
		}
		r.Port = port
		return i.Write(*r)
	})
	return port, err
}

// isFree reports whether a server can listen at a port.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && errors.Join(l.Close()) == nil
}
