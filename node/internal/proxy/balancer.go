package proxy

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxClients bounds the clients whose endpoints a balancer remembers.
const maxClients = 10000

// A balancer chooses endpoints, one after the other, or for each client the same one.
type balancer struct {
	mu       sync.Mutex
	backends []netip.AddrPort
	affinity time.Duration
	next     int
	clients  map[netip.Addr]*client
}

// A client is one with an endpoint of its own.
type client struct {
	backend netip.AddrPort
	until   time.Time
}

// set replaces the endpoints. Clients whose endpoint is not among them get another one.
func (b *balancer) set(backends []netip.AddrPort, affinity time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends, b.affinity = backends, affinity
	for ip, c := range b.clients {
		if affinity == 0 || !slices.Contains(backends, c.backend) {
			delete(b.clients, ip)
		}
	}
}

// has reports whether an endpoint is one of the balancer's.
func (b *balancer) has(backend netip.AddrPort) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.backends, backend)
}

// pick returns the endpoint for a connection of a client, but none of those that it has tried. ok
// is false if there is no other one.
func (b *balancer) pick(ip netip.Addr, tried []netip.AddrPort, now time.Time) (backend netip.AddrPort, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.clients[ip]; c != nil && now.Before(c.until) && !slices.Contains(tried, c.backend) {
		c.until = now.Add(b.affinity)
		return c.backend, true
	}
	for range b.backends {
		backend = b.backends[b.next%len(b.backends)]
		b.next = (b.next + 1) % len(b.backends)
		if !slices.Contains(tried, backend) {
			b.rememberLocked(ip, backend, now)
			return backend, true
		}
	}
	return netip.AddrPort{}, false
}

func (b *balancer) rememberLocked(ip netip.Addr, backend netip.AddrPort, now time.Time) {
	if b.affinity == 0 {
		return
	}
	if len(b.clients) >= maxClients {
		for known, c := range b.clients {
			if !now.Before(c.until) {
				delete(b.clients, known)
			}
		}
		if len(b.clients) >= maxClients {
			return
		}
	}
	if b.clients == nil {
		b.clients = map[netip.Addr]*client{}
	}
	b.clients[ip] = &client{backend, now.Add(b.affinity)}
}
