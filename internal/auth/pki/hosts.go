package pki

import (
	"net"
	"os"
	"slices"
	"strings"
)

// Hosts returns what a server that listens on a host is called by its clients:
// the names of this machine, those that a cluster gives to its API server, and,
// if it listens on all interfaces, their addresses.
func Hosts(listen string) []string {
	hosts := []string{
		"localhost",
		"kubernetes",
		"kubernetes.default",
		"kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
		"127.0.0.1",
		"::1",
	}
	if name, err := os.Hostname(); err == nil && nameable(name) {
		hosts = append(hosts, name)
	}
	if unspecified(listen) {
		addresses, _ := net.InterfaceAddrs() // without them there is still 127.0.0.1
		for _, a := range addresses {
			if ipnet, ok := a.(*net.IPNet); ok && !ipnet.IP.IsLinkLocalUnicast() {
				hosts = append(hosts, ipnet.IP.String())
			}
		}
	} else {
		host, _, _ := strings.Cut(listen, "%") // a zone is nobody else's business
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// unspecified says whether a host to listen on means all interfaces.
func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// nameable says whether a certificate can carry the name: not every machine is
// called what DNS allows.
func nameable(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '.':
		default:
			return false
		}
	}
	return !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".") && !strings.Contains(name, "..")
}
