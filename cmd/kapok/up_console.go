package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/console"
)

// frontConsole returns the handler that serves the console in front of the server's API, and a
// function that returns a link to it when the server has started. provider may be nil.
func frontConsole(serving kapok.ServingOptions, provider *console.Provider) (front func(http.Handler) http.Handler, link func(*kapok.Server) string) {
	var page *console.Console
	names := x509.Certificate{DNSNames: namesOf(serving)}
	front = func(api http.Handler) http.Handler {
		page = console.New(console.Options{
			API: api, Hosts: func(name string) bool { return names.VerifyHostname(name) == nil }, Provider: provider,
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

// loginProvider returns the OpenID Connect provider of the console; nil if there is none.
func (u *up) loginProvider(o *kapok.AuthenticationOptions) (*console.Provider, error) {
	p := u.provider
	if p.ClientID == "" {
		if p.Issuer != "" {
			return nil, errors.New("--console-oidc-issuer-url requires --console-oidc-client-id")
		}
		return nil, nil
	}
	if p.Issuer = cmp.Or(p.Issuer, o.OIDC.IssuerURL); p.Issuer == "" {
		return nil, errors.New("--console-oidc-client-id requires --console-oidc-issuer-url or --oidc-issuer-url")
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("--console-oidc-issuer-url: %w", err)
	}
	if file := o.OIDC.CAFile; file != "" {
		authorities, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--oidc-ca-file: %s has no certificate in PEM", file)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		p.Transport = transport
	}
	return &p, nil
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
