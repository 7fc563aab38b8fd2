package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
)

// Options are the settings of a Journal; zero values mean the defaults.
type Options struct {
	// Endpoints are the members of etcd: host:port, or URLs. Required.
	Endpoints []string
	// Prefix is what all keys begin with, without a slash at its end. Default
	// /registry.
	Prefix string
	// TLS is for the connections to etcd. Default is none, but for endpoints that
	// are https URLs.
	TLS *tls.Config
	// Username and Password are those of a user of etcd, if it asks for one.
	Username, Password string
	// Logger gets what happens to the connection. Default slog.Default().
	Logger *slog.Logger
	// Sealer encrypts values. Default is to store them as they are.
	Sealer journal.Sealer
	// DialTimeout is how long Open and Recover look for a member that answers.
	// Default 10 seconds.
	DialTimeout time.Duration
	// RequestTimeout is how long Append and Sync wait for etcd. A member that does
	// not answer within two fifths of it is given up, and the journal is down after
	// as long without one. Default 5 seconds.
	RequestTimeout time.Duration
	// Decode returns the JSON of an object in kube-apiserver's protobuf encoding.
	// Default DecodeProtobuf.
	Decode func(value []byte) ([]byte, error)
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Endpoints) == 0 {
		return o, errors.New("no endpoints given")
	}
	if o.Prefix == "" {
		o.Prefix = "/registry"
	}
	if !strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") {
		return o, fmt.Errorf("prefix %q must begin with a slash, and not end with one", o.Prefix)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 10 * time.Second
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = 5 * time.Second
	}
	if o.Decode == nil {
		o.Decode = DecodeProtobuf
	}
	return o, nil
}
