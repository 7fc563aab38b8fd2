package remote

import (
	"cmp"
	"fmt"
	"time"
)

// Options configure the webhook that authenticates bearer tokens. They have the names of
// kube-apiserver's flags --authentication-token-webhook-*.
type Options struct {
	// ConfigFile is a kubeconfig with the URL of the webhook and the credentials for it. It is read
	// once. Default: there is no webhook.
	ConfigFile string
	// Version is the version of the TokenReviews that are sent: v1 or v1beta1. Default v1beta1, as
	// in Kubernetes.
	Version string
	// CacheTTL is the time for which results are cached. Default 2 minutes; negative disables the
	// cache.
	CacheTTL time.Duration
}

// Validate returns an error if there is a webhook of an unknown Version. It does not read
// ConfigFile.
func (o *Options) Validate() error {
	if v := o.version(); o.ConfigFile != "" && v != "v1" && v != "v1beta1" {
		return fmt.Errorf("unsupported authentication webhook version %q, supported versions are %q, %q", v, "v1", "v1beta1")
	}
	return nil
}

// TTL returns CacheTTL, or the default.
func (o *Options) TTL() time.Duration { return cmp.Or(o.CacheTTL, 2*time.Minute) }

func (o *Options) version() string { return cmp.Or(o.Version, "v1beta1") }
