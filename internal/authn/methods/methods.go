// Package methods authenticates requests in the ways that its [Options] select. It builds an
// [authn.Authenticator] from the methods of the packages below internal/authn, in Kubernetes'
// order:
//
//	client certificates    of the server's own authority, and those of ClientCAFile
//	bearer tokens          the admin's, of TokenFile, of service accounts, for bootstrapping, of
//	                       OpenID Connect providers, and those that a webhook accepts
//	anonymous requests
//
// The package starts no goroutine: the caller refreshes [Methods.Files].
package methods

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authn/bootstraptoken"
	"github.com/kapok-dev/kapok/internal/authn/oidc"
	"github.com/kapok-dev/kapok/internal/authn/remote"
	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/authn/tokenfile"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// tokenTTL is the time for which a token of an OpenID Connect provider is cached, as in Kubernetes.
const tokenTTL = 10 * time.Second

// Config are the dependencies of Methods, and their options.
type Config struct {
	Options
	// Socket requests client certificates; nil without one.
	Socket Socket
	// Accounts authenticates tokens of service accounts. Required.
	Accounts *serviceaccount.Issuer
	// State has the Secrets of bootstrap tokens. Required with BootstrapTokens.
	State *state.State
	// Logger receives warnings about files. Required.
	Logger *slog.Logger
}

// A Socket requests client certificates.
type Socket interface {
	// Token returns the bearer token of the admin.
	Token() string
	// InviteClients requests certificates that the server's own authority or further ones, in PEM,
	// have signed, and returns the pool of all of them.
	InviteClients(further []byte) *x509.CertPool
}

// Methods are the configured methods. Make them with [Open].
type Methods struct {
	config        Config
	authenticator *authn.Authenticator
	tokens        authn.Tokens
	files         []*reload.File

	table     tokenfile.Table
	issuers   *oidc.Issuers // nil for none
	anonymous *apiserver.AnonymousAuthConfig
	webhook   *remote.Reviewer // nil for none
}

// Open reads the files of valid options. The caller must call Close.
func Open(ctx context.Context, c Config) (_ *Methods, err error) {
	m := &Methods{config: c}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := m.openTokens(ctx); err != nil {
		return nil, err
	}
	m.authenticator = authn.NewAuthenticator(nil, m.tokens)
	m.authenticator.Let(m.anonymity())
	switch {
	case c.Socket == nil:
	case c.ClientCAFile != "":
		err = m.read(ctx, "authorities of clients", m.loadClientCAs, c.ClientCAFile)
	default:
		m.trust(nil)
	}
	return m, err
}

// Close closes connections. Call it when no request is under way and Files are no longer refreshed.
func (m *Methods) Close() {
	if m.issuers != nil {
		m.issuers.Close()
	}
	if m.webhook != nil {
		m.webhook.Close()
	}
}

// Authenticator authenticates requests by these methods.
func (m *Methods) Authenticator() *authn.Authenticator { return m.authenticator }

// Tokens authenticates bearer tokens by these methods.
func (m *Methods) Tokens() authn.TokenAuthenticator { return m.tokens }

// Files returns the files to refresh, for [reload.Watch].
func (m *Methods) Files() []*reload.File { return m.files }

func (m *Methods) read(ctx context.Context, what string, load reload.Load, path string) error {
	f, err := reload.Open(ctx, what, load, path)
	if err == nil {
		m.files = append(m.files, f)
	}
	return err
}

// openTokens opens the methods for bearer tokens in Kubernetes' order: those that send requests
// come last.
func (m *Methods) openTokens(ctx context.Context) error {
	if m.config.Socket != nil {
		m.tokens = append(m.tokens, authn.AdminToken(m.config.Socket.Token()))
	}
	if path := m.config.TokenFile; path != "" {
		if err := m.read(ctx, "tokens", m.loadTokens, path); err != nil {
			return err
		}
		m.tokens = append(m.tokens, &m.table)
	}
	m.tokens = append(m.tokens, m.config.Accounts)
	if m.config.BootstrapTokens {
		m.tokens = append(m.tokens, bootstraptoken.Authenticator{State: m.config.State})
	}
	if err := m.openIssuers(ctx); err != nil {
		return err
	}
	if m.issuers != nil {
		m.tokens = append(m.tokens, authn.Remember(m.issuers, tokenTTL, 0))
	}
	if hook := m.config.Webhook; hook.ConfigFile != "" {
		var err error
		if m.webhook, err = remote.Open(hook); err != nil {
			return fmt.Errorf("authentication webhook: %w", err)
		}
		m.tokens = append(m.tokens, authn.Remember(m.webhook, hook.TTL(), hook.TTL()))
	}
	return nil
}

func (m *Methods) loadTokens(_ context.Context, contents [][]byte) error {
	warnings, err := m.table.Load(contents[0])
	for _, w := range warnings {
		m.config.Logger.Warn("tokens: "+w, "file", m.config.TokenFile)
	}
	return err
}

func (m *Methods) openIssuers(ctx context.Context) error {
	o := &m.config.OIDC
	switch {
	case m.config.ConfigFile != "":
		return m.read(ctx, "authentication configuration", m.loadIssuers, m.config.ConfigFile)
	case o.IsZero():
		return nil
	case o.CAFile != "":
		return m.read(ctx, "authority of the OpenID Connect provider", m.loadIssuers, o.CAFile)
	}
	return m.loadIssuers(ctx, [][]byte{nil})
}

// loadIssuers configures the issuers. contents is that of ConfigFile, or of the file with the
// provider's authority.
func (m *Methods) loadIssuers(ctx context.Context, contents [][]byte) error {
	config, err := m.configuration(contents[0])
	if err != nil {
		return err
	}
	var algorithms []string // none: ConfigFile allows all
	if m.config.ConfigFile == "" {
		algorithms = m.config.OIDC.Algorithms()
	}
	if m.issuers == nil {
		m.anonymous = config.Anonymous
		m.issuers, err = oidc.New(config, algorithms)
		return err
	}
	if !reflect.DeepEqual(config.Anonymous, m.anonymous) {
		return errors.New("anonymous: Forbidden: changed from initial configuration file")
	}
	return m.issuers.Replace(ctx, config, algorithms)
}

// configuration returns the issuers in ConfigFile or in the options.
func (m *Methods) configuration(content []byte) (*apiserver.AuthenticationConfiguration, error) {
	reserved := m.config.Accounts.Issuers()
	if m.config.ConfigFile != "" {
		config, err := oidc.Decode(content, reserved)
		if err == nil && config.Anonymous != nil && m.config.RefuseAnonymous {
			err = errors.New("anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
		return config, err
	}
	config := m.config.OIDC.Configuration(string(content))
	return config, oidc.Validate(config, reserved)
}

func (m *Methods) anonymity() authn.Anonymity {
	anonymity := authn.Anonymity{Refused: m.config.RefuseAnonymous}
	if m.anonymous == nil {
		return anonymity
	}
	anonymity.Refused = !m.anonymous.Enabled
	for _, c := range m.anonymous.Conditions {
		anonymity.Paths = append(anonymity.Paths, c.Path)
	}
	return anonymity
}

func (m *Methods) loadClientCAs(_ context.Context, contents [][]byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(contents[0]) {
		return errors.New("it holds no certificate in PEM")
	}
	m.trust(contents[0])
	return nil
}

// trust accepts client certificates of the server's own authority and of further ones, in PEM.
func (m *Methods) trust(further []byte) {
	m.authenticator.Trust(m.config.Socket.InviteClients(further))
}
