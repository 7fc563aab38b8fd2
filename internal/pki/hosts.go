package pki

import (
	"net"
	"os"
	"slices"
	"strings"
)

// Hosts returns the names and addresses by which clients may reach a server that listens on a host:
// the names of this machine, those that a cluster gives to its API server, and the addresses of all
// interfaces if the server listens on all of them.
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
		addresses, _ := net.InterfaceAddrs() // on an error there is still 127.0.0.1
		for _, a := range addresses {
			if ipnet, ok := a.(*net.IPNet); ok && !ipnet.IP.IsLinkLocalUnicast() {
				hosts = append(hosts, ipnet.IP.String())
			}
		}
	} else {
		host, _, _ := strings.Cut(listen, "%") // a zone is valid on this machine only
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// unspecified reports whether a listening host means all interfaces.
func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// nameable reports whether a certificate can have the name: names of machines need not be valid in
// DNS.
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
