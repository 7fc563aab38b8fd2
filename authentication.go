package kapok

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/oidc"
	"github.com/kapok-dev/kapok/internal/auth/remote"
	"github.com/kapok-dev/kapok/internal/auth/serviceaccount"
	"github.com/kapok-dev/kapok/internal/auth/tokenfile"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// AuthenticationOptions say who is known besides the admin, and how the server says who it is. They are kube-apiserver's
// flags; files are read again when they change, and what was read last stays in force where they are wrong.
type AuthenticationOptions struct {
	// ClientCAFile are authorities of client certificates in PEM, besides the server's own. Needs Options.Listen.
	ClientCAFile string
	// TokenFile is a table of tokens in CSV: token,user,uid,"group1,group2".
	TokenFile string
	// ConfigFile is a file with Kubernetes' AuthenticationConfiguration: issuers of tokens, and what is anonymous.
	ConfigFile string
	// OIDC is one issuer of tokens, where there is no ConfigFile.
	OIDC OIDCOptions
	// Webhook is asked about tokens that nobody else knows.
	Webhook TokenWebhookOptions
	// RefuseAnonymous refuses requests that do not say who sends them. Default: they are of system:anonymous, who may little.
	RefuseAnonymous bool
	// Serving is how the server says who it is. Needs Options.Listen.
	Serving ServingOptions
}

// OIDCOptions describe an OpenID Connect provider; there is none if IssuerURL and ClientID are empty.
type OIDCOptions struct {
	IssuerURL     string // https://...
	ClientID      string // the audience of tokens
	CAFile        string // authorities of the provider's certificate in PEM. Default: those of the system
	UsernameClaim string // default sub
	// UsernamePrefix is put before names. Default: the URL of the issuer and #, but nothing if the claim is email; - is nothing.
	UsernamePrefix string
	GroupsClaim    string // default: tokens say nothing of groups
	GroupsPrefix   string
	SigningAlgs    []string          // default RS256
	RequiredClaims map[string]string // with their values
}

// TokenWebhookOptions say whom to ask about tokens; nobody if ConfigFile is empty.
type TokenWebhookOptions struct {
	// ConfigFile is in the form of a kubeconfig. It is read once.
	ConfigFile string
	Version    string        // of the TokenReviews that are sent: v1, or v1beta1, which is the default as in Kubernetes
	CacheTTL   time.Duration // for which answers are kept. Default 2 minutes; negative keeps none
}

// Kubernetes' defaults.
const (
	tokenTTL          = 10 * time.Second // of tokens that an issuer has signed
	webhookTTL        = 2 * time.Minute
	webhookVersion    = "v1beta1"
	defaultSigningAlg = "RS256"
)

func (o *AuthenticationOptions) complete(socket bool) error {
	if !socket && (o.ClientCAFile != "" || !reflect.DeepEqual(o.Serving, ServingOptions{})) {
		return errors.New("certificates are for a server with a socket: set Listen")
	}
	if o.ConfigFile != "" && !reflect.DeepEqual(o.OIDC, OIDCOptions{}) {
		return errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	}
	return o.Serving.check()
}

// login is who is known besides the admin. It owns a goroutine where there is something to read again or to renew.
type login struct {
	options       AuthenticationOptions
	log           *slog.Logger
	outside       *outside // nil without a socket
	authenticator *auth.Authenticator

	table      tokenfile.Table
	issuers    *oidc.Issuers // nil for none
	algorithms []string      // of their tokens
	anonymous  *apiserver.AnonymousAuthConfig
	webhook    *remote.Reviewer // nil for none
	files      []*file

	known    auth.Tokens // all that know bearers
	reserved []string    // issuers that are the server's own

	ctx  context.Context // done when close is called
	stop context.CancelFunc
	done sync.WaitGroup
}

// openLogin reads all files, and then follows them.
func openLogin(opts Options, out *outside, accounts *serviceaccount.Issuer) (_ *login, err error) {
	l := &login{options: opts.Authentication, log: opts.Logger, outside: out, reserved: accounts.Issuers()}
	l.ctx, l.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.known, err = l.tokens(accounts); err != nil {
		return nil, err
	}
	l.authenticator = auth.NewAuthenticator(nil, l.known)
	l.authenticator.Let(l.anonymity())
	if out != nil {
		if err := l.certificates(); err != nil {
			return nil, err
		}
	}
	every := reload
	if len(l.files) == 0 {
		if out == nil {
			return l, nil
		}
		every = renew
	}
	l.done.Go(func() { l.follow(every) })
	return l, nil
}

func (l *login) close() {
	l.stop()
	l.done.Wait()
	if l.issuers != nil {
		l.issuers.Close()
	}
	if l.webhook != nil {
		l.webhook.Close()
	}
}

// tokens are those who know bearers, in Kubernetes' order: who asks others comes last.
func (l *login) tokens(accounts *serviceaccount.Issuer) (auth.Tokens, error) {
	var all auth.Tokens
	if l.outside != nil {
		all = append(all, auth.AdminToken(l.outside.credentials.Token()))
	}
	if l.options.TokenFile != "" {
		if err := l.read("tokens", l.loadTokens, l.options.TokenFile); err != nil {
			return nil, err
		}
		all = append(all, &l.table)
	}
	all = append(all, accounts)
	if err := l.openIssuers(); err != nil {
		return nil, err
	}
	if l.issuers != nil {
		all = append(all, auth.Remember(l.issuers, tokenTTL, 0))
	}
	if hook := l.options.Webhook; hook.ConfigFile != "" {
		version, ttl := hook.Version, hook.CacheTTL
		if version == "" {
			version = webhookVersion
		}
		if ttl == 0 {
			ttl = webhookTTL
		}
		var err error
		if l.webhook, err = remote.Open(hook.ConfigFile, version); err != nil {
			return nil, fmt.Errorf("authentication webhook: %w", err)
		}
		all = append(all, auth.Remember(l.webhook, ttl, ttl))
	}
	return all, nil
}

func (l *login) loadTokens(contents [][]byte) error {
	warnings, err := l.table.Load(contents[0])
	for _, w := range warnings {
		l.log.Warn("tokens: "+w, "file", l.options.TokenFile)
	}
	return err
}

// openIssuers reads which there are, if there are any.
func (l *login) openIssuers() error {
	if l.options.ConfigFile != "" {
		return l.read("authentication configuration", l.loadIssuers, l.options.ConfigFile)
	}
	o := l.options.OIDC
	if reflect.DeepEqual(o, OIDCOptions{}) {
		return nil
	}
	if l.algorithms = o.SigningAlgs; len(l.algorithms) == 0 {
		l.algorithms = []string{defaultSigningAlg}
	}
	if o.CAFile != "" {
		return l.read("authority of the OpenID Connect provider", l.loadIssuers, o.CAFile)
	}
	return l.loadIssuers(nil)
}

// loadIssuers takes the content of a configuration, or of the file with the provider's authority.
func (l *login) loadIssuers(contents [][]byte) error {
	config, err := l.authentication(contents)
	if err != nil {
		return err
	}
	if l.issuers == nil {
		l.anonymous = config.Anonymous
		l.issuers, err = oidc.New(config, l.algorithms)
		return err
	}
	if !reflect.DeepEqual(config.Anonymous, l.anonymous) {
		return errors.New("anonymous: Forbidden: changed from initial configuration file")
	}
	return l.issuers.Replace(l.ctx, config, l.algorithms)
}

// authentication is what the file or the options say of issuers.
func (l *login) authentication(contents [][]byte) (*apiserver.AuthenticationConfiguration, error) {
	if l.options.ConfigFile != "" {
		config, err := oidc.Decode(contents[0], l.reserved)
		if err == nil && config.Anonymous != nil && l.options.RefuseAnonymous {
			err = errors.New("anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
		return config, err
	}
	o := l.options.OIDC
	flags := oidc.Flags{
		IssuerURL: o.IssuerURL, ClientID: o.ClientID,
		UsernameClaim: o.UsernameClaim, UsernamePrefix: o.UsernamePrefix, GroupsClaim: o.GroupsClaim, GroupsPrefix: o.GroupsPrefix,
		RequiredClaims: o.RequiredClaims,
	}
	if contents != nil {
		flags.CertificatePEM = string(contents[0])
	}
	config, err := flags.Configuration()
	if err == nil {
		err = oidc.Validate(config, l.reserved)
	}
	return config, err
}

func (l *login) anonymity() auth.Anonymity {
	a := auth.Anonymity{Refused: l.options.RefuseAnonymous}
	if l.anonymous == nil {
		return a
	}
	a.Refused = !l.anonymous.Enabled
	for _, c := range l.anonymous.Conditions {
		a.Paths = append(a.Paths, c.Path)
	}
	return a
}

// certificates reads whose certificates are trusted, and which one the server shows.
func (l *login) certificates() error {
	if l.options.ClientCAFile != "" {
		if err := l.read("authorities of clients", l.loadClientCAs, l.options.ClientCAFile); err != nil {
			return err
		}
	} else {
		l.trust(nil)
	}
	s := l.options.Serving
	if s.CertFile == "" {
		return nil
	}
	return l.read("serving certificate", func(contents [][]byte) error {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err == nil {
			l.outside.secure.show(pair)
		}
		return err
	}, s.CertFile, s.KeyFile)
}

func (l *login) loadClientCAs(contents [][]byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(contents[0]) {
		return errors.New("there is no certificate in PEM")
	}
	l.trust(contents[0])
	return nil
}

// trust takes certificates for those of clients that are signed by the server itself, or by others.
func (l *login) trust(others []byte) {
	pool := l.outside.credentials.ClientCAs()
	pool.AppendCertsFromPEM(others)
	l.outside.secure.invite(pool)
	l.authenticator.Trust(pool)
}

// How often files are read again, and certificates of the server's own looked at where there are none.
const (
	reload = 10 * time.Second
	renew  = time.Hour
)

// A file is one, or some that go together, whose content is in force.
type file struct {
	what      string
	paths     []string
	load      func(contents [][]byte) error
	sum       [sha256.Size]byte // of what is in force
	complaint string            // why what is there now is not
}

// read loads files, which are followed from now on.
func (l *login) read(what string, load func([][]byte) error, paths ...string) error {
	f := &file{what: what, paths: paths, load: load}
	if _, err := f.refresh(); err != nil {
		return fmt.Errorf("%s in %s: %w", what, strings.Join(paths, " and "), err)
	}
	l.files = append(l.files, f)
	return nil
}

// refresh loads what has changed.
func (f *file) refresh() (changed bool, err error) {
	hash := sha256.New()
	var contents [][]byte
	for _, path := range f.paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		part := sha256.Sum256(data)
		hash.Write(part[:])
		contents = append(contents, data)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if sum == f.sum {
		return false, nil
	}
	if err := f.load(contents); err != nil {
		return false, err
	}
	f.sum = sum
	return true, nil
}

func (l *login) follow(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		for _, f := range l.files {
			l.refresh(f)
		}
		if l.outside != nil {
			if err := l.outside.renew(time.Now()); err != nil {
				l.log.Error("certificates of the server cannot be renewed", "error", err)
			}
		}
	}
}

// refresh says once what is wrong.
func (l *login) refresh(f *file) {
	changed, err := f.refresh()
	switch {
	case l.ctx.Err() != nil:
	case err != nil && err.Error() != f.complaint:
		f.complaint = err.Error()
		l.log.Error(f.what+" not loaded; what was there before stays in force", "files", slices.Clone(f.paths), "error", err)
	case changed:
		l.log.Info(f.what+" loaded", "files", slices.Clone(f.paths))
	}
	if err == nil {
		f.complaint = ""
	}
}
