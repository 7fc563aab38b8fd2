package methods

import (
	"errors"

	"github.com/kapok-dev/kapok/internal/authn/oidc"
	"github.com/kapok-dev/kapok/internal/authn/remote"
)

// Options select how users besides the admin are authenticated. They have the names of
// kube-apiserver's flags. Files are read again when they change; an invalid one is logged and
// changes nothing.
type Options struct {
	// ClientCAFile is a file in PEM with the authorities of client certificates, in addition to the
	// server's own. Needs Options.Listen. Default: none.
	ClientCAFile string
	// TokenFile is a file with tokens in CSV: token,user,uid,"group1,group2". Default: none.
	TokenFile string
	// BootstrapTokens accepts the tokens in Secrets of type bootstrap.kubernetes.io/token in the
	// namespace kube-system, with which new nodes request certificates. Default: they are rejected.
	BootstrapTokens bool
	// ConfigFile is a file with Kubernetes' AuthenticationConfiguration: token issuers, and which
	// requests may be anonymous. Default: none.
	ConfigFile string
	// OIDC is one token issuer. It excludes ConfigFile. Default: none.
	OIDC oidc.Options
	// Webhook authenticates the tokens that no other method accepts. Default: none.
	Webhook remote.Options
	// RefuseAnonymous rejects requests without credentials. Default: they are accepted as user
	// system:anonymous.
	RefuseAnonymous bool
}

// Validate returns an error if options contradict each other. It does not read files.
func (o *Options) Validate() error {
	if o.ConfigFile != "" && !o.OIDC.IsZero() {
		return errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	}
	return errors.Join(o.OIDC.Validate(), o.Webhook.Validate())
}
