package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/console"
)

// frontConsole returns the handler that serves the console in front of the server's API, and a
// function that returns a link to it when the server has started.
func frontConsole(serving kapok.ServingOptions) (front func(http.Handler) http.Handler, link func(*kapok.Server) string) {
	var page *console.Console
	names := x509.Certificate{DNSNames: namesOf(serving)}
	front = func(api http.Handler) http.Handler {
		page = console.New(console.Options{
			API: api, Hosts: func(name string) bool { return names.VerifyHostname(name) == nil },
		})
		return page
	}
	return front, func(s *kapok.Server) string {
		base, _, _ := strings.Cut(reachable(s.Address()), ",")
		address, err := page.Link(base, s.Token())
		if err != nil {
			return ""
		}
		return address
	}
}

func noConsole(*kapok.Server) string { return "" }

// namesOf returns the DNS names by which browsers reach the server: those of its certificate.
func namesOf(serving kapok.ServingOptions) []string {
	if serving.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(serving.CertFile, serving.KeyFile)
		if err != nil { // the start of the server reports it
			return nil
		}
		return pair.Leaf.DNSNames
	}
	var names []string
	if host, err := os.Hostname(); err == nil {
		names = append(names, strings.ToLower(host))
	}
	for _, name := range serving.Names {
		if net.ParseIP(name) == nil {
			names = append(names, name)
		}
	}
	return names
}
