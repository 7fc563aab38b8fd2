package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// A Config has the address of a webhook, a URL or a service, and how to verify it.
type Config struct {
	Name     string // for messages
	URL      string // "" for a service
	Service  *Service
	CABundle []byte // PEM; the system's roots if it is empty
	// Repeatable allows a call to be sent twice. That happens if a kept connection turns out to be
	// dead, for example because the webhook was restarted.
	Repeatable bool
}

// A Service is a service in the cluster, and the port and path of the webhook on it.
type Service struct {
	Namespace, Name string
	Port            int32  // 0 for 443
	Path            string // "" for the root
}

// A Hook is a Config prepared for many calls. It is immutable.
type Hook struct {
	config Config
	key    string // all of the config except the name
}

// NewHook returns a Hook for a Config, whose fields must not change afterwards.
func NewHook(c Config) *Hook {
	if len(bytes.TrimSpace(c.CABundle)) == 0 {
		c.CABundle = nil
	}
	if c.Service != nil && c.Service.Port == 0 {
		s := *c.Service
		s.Port = 443
		c.Service = &s
	}
	h := &Hook{config: c, key: c.URL}
	if c.Service != nil {
		h.key = fmt.Sprintf("%+v", *c.Service)
	}
	h.key = fmt.Sprintf("%s %t\n%s", h.key, c.Repeatable, c.CABundle)
	return h
}

// serverName returns the name in the certificate of a service.
func (s *Service) serverName() string { return s.Name + "." + s.Namespace + ".svc" }

// location returns the URL of the webhook as messages show it: scheme and host, and the path.
func (h *Hook) location() (host *url.URL, path string, err error) {
	fail := func(reason error) (*url.URL, string, error) {
		return nil, "", fmt.Errorf("failed calling webhook %q: %w", h.config.Name, reason)
	}
	if s := h.config.Service; s != nil {
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(s.serverName(), strconv.Itoa(int(s.Port)))}, s.Path, nil
	}
	if h.config.URL == "" {
		return fail(errors.New("webhook configuration must have either service or URL"))
	}
	u, err := url.Parse(h.config.URL)
	if err != nil {
		//lint:ignore ST1005 Kubernetes' words
		return fail(fmt.Errorf("Unparsable URL: %w", err))
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, u.Path, nil
}

// isHere reports whether a URL is on this machine.
func isHere(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
