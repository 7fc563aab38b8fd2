package kapok

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/accounts"
	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/certificates"
	"github.com/kapok-dev/kapok/internal/admission/policy"
	"github.com/kapok-dev/kapok/internal/admission/quota"
	accountadmission "github.com/kapok-dev/kapok/internal/admission/serviceaccount"
	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/pki"
	"github.com/kapok-dev/kapok/internal/auth/serviceaccount"
	"github.com/kapok-dev/kapok/internal/auth/signer"
	"github.com/kapok-dev/kapok/internal/builtin"
	"github.com/kapok-dev/kapok/internal/crd"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/reaper"
	"github.com/kapok-dev/kapok/internal/replica"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/util/rand"
)

// handler is what the server serves, at either door.
type handler interface {
	http.Handler
	// EndWatches ends all watches, and those that are still to come at once.
	EndWatches()
	// Close ends what the handler runs besides requests. None is under way then.
	Close()
}

// inner is the inside of the server: the kinds, what follows them, and the HTTP
// surface over all.
type inner struct {
	*endpoint.Handler
	replica *replica.Replica // nil if the server is alone
	kinds   *crd.Controller
	hooks   *webhooks
	others  *aggregate.Aggregator // what other servers serve behind this one
	chores  *chores
	audit   *audit.Auditor // nil if nothing is written down
	log     *slog.Logger
	access  *access
	limiter *fairness.Limiter
	leave   func() // takes the server out of the endpoints of the service kubernetes
}

// parts are what the inside of the server is built on.
type parts struct {
	store         *store
	authenticator *auth.Authenticator
	tokens        auth.TokenAuthenticator
	accounts      *serviceaccount.Issuer
	rootCA        []byte         // the certificate that clients trust the server by, in PEM; nil without a socket
	authority     *pki.Authority // of client certificates; nil where none can be shown
	proxying      *proxying
	address       string // of the socket, HOST:PORT; empty without one
	options       Options
}

// newHandler builds the inside of the server.
func newHandler(ctx context.Context, p parts) (_ handler, err error) {
	kinds := builtin.Definitions
	if p.options.RetiredAPIs {
		kinds = builtin.WithRetired
	}
	registry := resource.NewRegistry(append(kinds(), crd.Definition(p.options.V1beta1CRDs))...)
	store := resource.NewStore(p.store.state, registry)
	in := &inner{leave: func() {}, log: p.options.Logger}
	defer func() {
		if err != nil {
			in.Close()
		}
	}()
	if err := builtin.EnsureNamespaces(ctx, store); err != nil {
		return nil, err
	}
	if err := builtin.EnsureDefaults(ctx, store); err != nil {
		return nil, err
	}
	if in.access, err = newAccess(ctx, p, store); err != nil {
		return nil, err
	}
	guards, err := in.guard(p, store, registry)
	if err != nil {
		return nil, err
	}
	if err := in.join(ctx, p, store); err != nil {
		return nil, err
	}
	if err := in.enlist(ctx, p, store); err != nil {
		return nil, err
	}
	collectors := append(p.store.collectors(), in.kinds.Metrics(), in.hooks.Metrics())
	if in.audit, err = p.options.Audit.start(in.log); err != nil {
		return nil, err
	}
	if in.audit != nil {
		collectors = append(collectors, in.audit.Collectors()...)
	}
	if in.others, err = aggregate.Start(p.reach(store)); err != nil {
		return nil, err
	}
	if err := p.proxying.tell(ctx, store); err != nil {
		return nil, err
	}
	if in.limiter, err = newLimiter(ctx, store, p.options); err != nil {
		return nil, err
	}
	in.Handler = endpoint.New(endpoint.Options{
		Limiter:       in.limiter,
		Store:         store,
		Aggregated:    in.others,
		GroupByGroup:  p.options.GroupByGroupDiscovery,
		Authenticator: p.authenticator,
		Authorizer:    in.access,
		OpenAPI:       endpoint.OpenAPI(registry, in.others, serverVersion().GitVersion),
		Documents:     issuerDocuments(p.accounts, p.options.Accounts, p.address),
		Logger:        p.options.Logger,
		Version:       serverVersion(),
		Address:       p.address,
		Collectors:    collectors,
		Audit:         in.audit,
		Checks: []endpoint.Check{{
			Name: "journal",
			Run:  func(*http.Request) error { return p.store.state.Health() },
			// It comes back by itself, and until then objects can be read.
			ReadyOnly: true,
		}},
	})
	in.chores = startChores(in.replica, p.chores(ctx, store, guards)...)
	return in, nil
}

// guards are what stands before the store and has work of its own to do beside requests.
type guards struct {
	policies *policy.Policies
	quotas   *quota.Quotas
}

// guard puts before the store who decides about the writes of users.
func (in *inner) guard(p parts, store *resource.Store, registry *resource.Registry) (guards, error) {
	in.hooks = newWebhooks(p.options, store, in.access)
	g := guards{
		policies: policy.New(store, in.access),
		quotas:   quota.New(registry, quota.Options{Single: p.store.shared, Enforce: p.options.Admission.on(quota.Name)}),
	}
	others := map[string][]admission.Plugin{
		"MutatingAdmissionPolicy":    {g.policies.Mutating()},
		"MutatingAdmissionWebhook":   {in.hooks.Mutating()},
		"ValidatingAdmissionPolicy":  {g.policies.Readers(), g.policies.Validating()},
		"ValidatingAdmissionWebhook": {in.hooks.Validating()},
	}
	for _, name := range []string{certificates.Approval, certificates.Signing, certificates.Attest, certificates.SubjectRestriction} {
		others[name] = []admission.Plugin{certificates.New(name, store.Permit)}
	}
	if p.keepsAccounts() {
		others["ServiceAccount"] = []admission.Plugin{&accountadmission.Plugin{State: p.store.state}}
	}
	chain, err := p.options.Admission.chain(store, in.access, others)
	if err != nil {
		return guards{}, err
	}
	store.Guard(resource.Gate{
		Authorizer: in.access,
		Roles:      in.access.roles,
		Tokens:     p.tokens,
		Accounts:   p.accounts,
		Admission:  chain,
		Claim:      g.quotas.Claim,
		Spares:     g.quotas.Spares,
	})
	return g, nil
}

// chores are what one of the servers on a journal does for all.
func (p *parts) chores(ctx context.Context, store *resource.Store, g guards) []chore {
	log := p.options.Logger
	all := append([]chore{p.store.compact}, p.registrations(ctx, store)...)
	if p.keepsAccounts() {
		all = append(all, func() func() {
			return accounts.Start(ctx, store, accounts.Options{Logger: log, Issuer: p.accounts, Authority: p.rootCA}).Close
		})
	}
	if p.options.KeepGarbage {
		return all
	}
	all = append(all,
		func() func() { return g.quotas.Start(ctx, store, log) },
		func() func() {
			return reaper.Start(ctx, store, reaper.Options{Logger: log, NamespaceGrace: p.options.NamespaceGrace}).Close
		},
		gatherRoles(ctx, *p, store),
		func() func() { return g.policies.CheckTypes(log) })
	if p.authority != nil {
		all = append(all, func() func() { return signer.Start(ctx, store, p.authority, log).Close })
	}
	return all
}

// join makes the server known to the others on its journal, if there may be any,
// and serves the custom resources that they serve.
func (in *inner) join(ctx context.Context, p parts, store *resource.Store) error {
	var err error
	if !p.store.shared {
		if in.kinds, err = crd.Start(ctx, store, nil, in.hooks.options, p.options.Logger); err != nil {
			return fmt.Errorf("custom resources: %w", err)
		}
		return nil
	}
	r, known, err := replica.Join(ctx, store, replicaName(), p.options.Logger)
	if err != nil {
		return fmt.Errorf("join the servers on %s: %w", p.options.Store, err)
	}
	in.replica = r
	if in.kinds, err = crd.Start(ctx, store, r, in.hooks.options, p.options.Logger); err == nil {
		// What the others have established before they knew of this server.
		err = in.kinds.Reach(ctx, known)
	}
	if err != nil {
		return fmt.Errorf("custom resources: %w", err)
	}
	return nil
}

// enlist makes the service kubernetes lead to this server, as long as it runs.
func (in *inner) enlist(ctx context.Context, p parts, store *resource.Store) error {
	server := advertised(p.address)
	if err := builtin.EnsureKubernetes(ctx, store, server, p.store.shared, p.options.ServiceAddresses); err != nil {
		return err
	}
	if p.store.shared && server.IsValid() {
		in.leave = func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			// Where it does not succeed, the server seems to have crashed.
			_ = builtin.LeaveKubernetes(ctx, store, server)
		}
	}
	return nil
}

// replicaName is one that no other server has, and that says where it runs.
func replicaName() string {
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, host)
	if host = strings.Trim(host, "-"); host != "" {
		host += "-"
	}
	return host + rand.String(8)
}

// Close implements handler.
func (in *inner) Close() {
	if in.Handler != nil {
		in.Handler.Close()
	}
	if in.limiter != nil {
		in.limiter.Close()
	}
	if in.audit != nil {
		if err := in.audit.Close(); err != nil {
			in.log.Error("audit", "err", err)
		}
	}
	if in.others != nil {
		in.others.Close()
	}
	if in.chores != nil {
		in.chores.Close()
	}
	if in.kinds != nil {
		in.kinds.Close()
	}
	if in.hooks != nil {
		in.hooks.Close()
	}
	if in.access != nil {
		in.access.Close()
	}
	in.leave()
	if in.replica != nil {
		in.replica.Close()
	}
}
