package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Connection configures the connection to an etcd. Zero values mean the defaults.
type Connection struct {
	// Prefix is the prefix of all keys. Default /registry.
	Prefix string
	// CAFile is a file in PEM with the authorities of etcd's certificates. It is read once. Default:
	// those of the system with CertFile, no TLS without it.
	CAFile string
	// CertFile and KeyFile are files in PEM with the client certificate for etcd and its key. They are
	// read for each connection. Default: none.
	CertFile, KeyFile string
	// Username and Password authenticate the server to an etcd that requires it. Default: none.
	Username, Password string
}

// Validate returns the error of Options for a store: that of its address, or of files that cannot
// be used.
func (c *Connection) Validate(store string) error {
	_, err := c.Options(store)
	return err
}

// Options returns the options of a journal on the etcd of a store, etcd://HOST:PORT,HOST:PORT.
// Slashes around Prefix are optional.
func (c Connection) Options(store string) (Options, error) {
	const form = `want etcd://HOST:PORT,HOST:PORT, like etcd://127.0.0.1:2379`
	addresses, ok := strings.CutPrefix(store, "etcd://")
	if !ok || addresses == "" || strings.ContainsAny(addresses, "/?#@ ") {
		return Options{}, fmt.Errorf("store %q: %s", store, form)
	}
	secure, err := c.tls()
	if err != nil {
		return Options{}, err
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	c.Prefix = "/" + strings.Trim(c.Prefix, "/")
	o := Options{Connection: c, TLS: secure}
	for _, address := range strings.Split(addresses, ",") {
		endpoint := url.URL{Scheme: scheme, Host: address}
		if endpoint.Hostname() == "" || endpoint.Port() == "" {
			return Options{}, fmt.Errorf("store %q: %s", store, form)
		}
		o.Endpoints = append(o.Endpoints, endpoint.String())
	}
	return o, nil
}

// tls returns nil without files.
func (c *Connection) tls() (*tls.Config, error) {
	if c.CAFile == "" && c.CertFile == "" && c.KeyFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		data, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("etcd CA file %s holds no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return config, nil
	}
	if c.CertFile == "" || c.KeyFile == "" {
		return nil, fmt.Errorf("Options.Etcd.CertFile is %q and KeyFile is %q: set both or neither", c.CertFile, c.KeyFile)
	}
	// Read for each connection: certificates are renewed while the server runs.
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("etcd client certificate: %w", err)
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return config, nil
}
