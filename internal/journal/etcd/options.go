package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

// Options are the settings of a Journal. Zero values mean the defaults.
type Options struct {
	// Endpoints are the addresses of etcd's members: host:port, or URLs. Required.
	Endpoints []string
	// Connection has the Prefix, which starts with a slash and does not end with one, Username and
	// Password. Its files are read by Connection.Options, which sets TLS.
	Connection
	// TLS configures the connections to etcd. Default: no TLS, except for endpoints with an https
	// URL.
	TLS *tls.Config
	// Logger receives changes of the connection. Default slog.Default().
	Logger *slog.Logger
	// Sealer encrypts values. Default: values are stored unencrypted.
	Sealer journal.Sealer
	// DialTimeout limits the time in which Open and Recover look for a member that responds. Default
	// 10 seconds.
	DialTimeout time.Duration
	// RequestTimeout limits the time that Append waits for an etcd that is slow but responds to
	// reads. If no member responds, Append and Sync return an error after at most two fifths of it.
	// The connection to a member that does not respond to a read within three tenths of it is
	// closed. Default 5 seconds.
	RequestTimeout time.Duration
	// Progress is called while Recover reads, after every page, with the number of keys that it has
	// read, and of those that there are. It must not block. Default: it is not called.
	Progress func(read, total int64)
	// Paths has the keys in etcd of built-in kinds. Default: only custom resources are recognized.
	Paths *object.Paths
	// Decode returns the JSON of an object in kube-apiserver's protobuf encoding. Default: such
	// objects are unreadable and reported as damaged.
	Decode func(value []byte) ([]byte, error)
}

// defaultPrefix is that of kube-apiserver.
const defaultPrefix = "/registry"

func (o Options) withDefaults() (Options, error) {
	if len(o.Endpoints) == 0 {
		return o, errors.New("Options.Endpoints is empty: set at least one address of etcd")
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if !strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") {
		return o, fmt.Errorf("prefix %q is invalid: it must start with a slash and must not end with one", o.Prefix)
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
	if o.Progress == nil {
		o.Progress = unreported
	}
	if o.Decode == nil {
		o.Decode = func([]byte) ([]byte, error) {
			return nil, errors.New("protobuf is not supported: Options.Decode is not set")
		}
	}
	return o, nil
}
