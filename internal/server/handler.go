package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/certificates"
	"github.com/kapok-dev/kapok/internal/admission/imagepolicy"
	"github.com/kapok-dev/kapok/internal/admission/manifests"
	"github.com/kapok-dev/kapok/internal/admission/noderestriction"
	"github.com/kapok-dev/kapok/internal/admission/optional"
	"github.com/kapok-dev/kapok/internal/admission/plugins"
	"github.com/kapok-dev/kapok/internal/admission/policy"
	"github.com/kapok-dev/kapok/internal/admission/quota"
	accountadmission "github.com/kapok-dev/kapok/internal/admission/serviceaccount"
	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/crd"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/history"
	"github.com/kapok-dev/kapok/internal/housekeeping"
	"github.com/kapok-dev/kapok/internal/housekeeping/accounts"
	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/housekeeping/quotas"
	"github.com/kapok-dev/kapok/internal/housekeeping/reaper"
	"github.com/kapok-dev/kapok/internal/housekeeping/replica"
	"github.com/kapok-dev/kapok/internal/housekeeping/signer"
	"github.com/kapok-dev/kapok/internal/journal/encryption"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
)

// handler serves the requests of both transports.
type handler interface {
	http.Handler
	// Retire makes /readyz fail. All requests are served as before.
	Retire()
	// EndWatches ends all watches, and later ones as soon as they start.
	EndWatches()
	// Store returns the store whose objects it serves.
	Store() *resource.Store
	// Close stops the goroutines of the handler. It is called when no request is running.
	Close()
}

// inner is the handler of a server: the HTTP API over the kinds, and the goroutines beside it.
type inner struct {
	*endpoint.Handler
	store   *resource.Store
	closers closers
}

// Store implements handler.
func (in *inner) Store() *resource.Store { return in.store }

// Close implements handler.
func (in *inner) Close() { _ = in.closers.close() } // none of them returns an error

// parts are the dependencies of newHandler.
type parts struct {
	state         *state.State
	shared        bool                   // other servers write to the journal, too
	sealer        *encryption.Config     // of stored objects; nil if they are not encrypted
	compact       housekeeping.Task      // bounds the history that the journal keeps
	collectors    []prometheus.Collector // metrics of the journal
	authenticator *authn.Authenticator
	tokens        authn.TokenAuthenticator
	accounts      *serviceaccount.Issuer
	rootCA        []byte         // the certificate by which clients verify the server, in PEM; nil without a socket
	authority     *pki.Authority // of client certificates; nil without a socket
	proxying      *proxying
	address       string // of the socket, HOST:PORT; empty without one
	options       Options
}

// newRegistry returns a registry with the built-in kinds that the options select.
func newRegistry(o Options, known *users.Users) (*resource.Registry, error) {
	definitions := kinds.Definitions
	if o.RetiredAPIs {
		definitions = kinds.WithRetired
	}
	builtin := definitions()
	if o.Nodes.LoopbackEndpoints {
		builtin = kinds.WithLoopback(builtin)
	}
	if o.EventTTL != 0 {
		builtin = kinds.WithEventTTL(builtin, max(0, o.EventTTL))
	}
	if p := o.NodePorts; p.Size != 0 {
		builtin = kinds.WithNodePorts(builtin, services.PortRange{First: p.Base, Size: p.Size})
	}
	kinds.Emulate(builtin, o.gates())
	all := append(kinds.Give(builtin, known), crd.Definition(o.V1beta1CRDs))
	if err := kinds.Selection(o.RuntimeConfig).Apply(all); err != nil {
		return nil, fmt.Errorf("Options.RuntimeConfig: %w", err)
	}
	return resource.NewRegistry(all...), nil
}

// newHandler builds the handler of a server.
func newHandler(ctx context.Context, p parts) (_ handler, err error) {
	known := &users.Users{Tokens: p.tokens, Accounts: p.accounts} // the authorizer follows when there is a store
	registry, err := newRegistry(p.options, known)
	if err != nil {
		return nil, err
	}
	store := resource.NewStore(p.state, registry)
	log := p.options.Logger
	in := &inner{store: store}
	started := progress{}
	defer func() {
		if err != nil {
			in.Close()
		}
	}()
	if err := bootstrap.EnsureNamespaces(ctx, store); err != nil {
		return nil, err
	}
	started.done(namespacesStep)
	if err := bootstrap.EnsurePriorityClasses(ctx, store); err != nil {
		return nil, err
	}
	started.done(prioritiesStep)
	access, err := newAccess(ctx, p, store)
	if err != nil {
		return nil, err
	}
	in.closers.do(access.Close)
	started.done(informersStep, rolesStep)
	known.Authorizer, known.Roles = access, access.roles
	p.accounts.OnUse(accounts.LabelUse(store, p.options.Logger))
	hooks := newWebhooks(p.options, store, access)
	in.closers.do(hooks.Close)
	admits, err := p.admit(store, registry, known, access, hooks, &in.closers)
	if err != nil {
		return nil, err
	}
	started.done(admissionStep)
	joined, custom, err := p.join(ctx, store, hooks.options, &in.closers)
	if err != nil {
		return nil, err
	}
	started.done(kindsInformersStep, kindsStep, kindsSyncedStep)
	if err := p.enlist(ctx, store, &in.closers); err != nil {
		return nil, err
	}
	started.done(serviceStep, addressesStep, claimsStep)
	collectors := append(p.collectors, kindSizes{p.state, registry}, custom.Metrics(), hooks.Metrics(), admits.policies.Metrics(), admits.metrics, gateMetrics{p.options.gates()})
	if admits.manifests != nil {
		collectors = append(collectors, admits.manifests)
	}
	auditor, err := p.startAudit(&in.closers)
	if err != nil {
		return nil, err
	}
	if auditor != nil {
		collectors = append(collectors, auditor.Collectors()...)
	}
	reach := p.proxying.reach(store, log)
	inside, err := p.inside(ctx, store, access)
	if err != nil {
		return nil, err
	}
	in.closers.do(serveInside(inside, log, &reach))
	others, err := aggregate.Start(reach)
	if err != nil {
		return nil, err
	}
	in.closers.do(others.Close)
	started.done(othersStep, othersAvailableStep, othersReachedStep, othersServedStep, othersListedStep)
	if err := p.proxying.tell(ctx, store); err != nil {
		return nil, err
	}
	started.done(proxyingStep)
	nodes, err := p.reachNodes(ctx, store, &in.closers)
	if err != nil {
		return nil, err
	}
	limiter, err := startLimiter(ctx, store, p.options, &in.closers)
	if err != nil {
		return nil, err
	}
	started.done(fairStep, fairFilterStep, unfairStep, fairConfigStep)
	in.Handler = endpoint.New(endpoint.Options{
		Limiter:            limiter,
		RequestMemory:      p.options.Fairness.MaxRequestMemory,
		Store:              store,
		Aggregated:         others,
		Connector:          nodes,
		GroupByGroup:       p.options.GroupByGroupDiscovery,
		Authenticator:      p.authenticator,
		Authorizer:         access,
		OpenAPI:            endpoint.OpenAPI(registry, others, p.options.gates().Release.String()),
		Debug:              p.options.Debug,
		Flags:              p.options.shownFlags(),
		NoStatus:           !p.options.gates().Enabled(gates.Statusz),
		TracerProvider:     p.options.TracerProvider,
		Documents:          issuerDocuments(p.accounts, p),
		Logger:             log,
		Version:            serverVersion(p.options.gates().Release),
		Address:            p.external(),
		Requests:           p.options.Requests,
		WatchGrace:         p.options.ShutdownWatchGrace,
		PlainImpersonation: !p.options.gates().Enabled(gates.ConstrainedImpersonation),
		UpgradesByGet:      !p.options.gates().Enabled(gates.UpgradesNeedCreate),
		IgnoreUnsafeDelete: !p.options.gates().Enabled(gates.UnsafeDelete),
		Collectors:         collectors,
		Audit:              auditor,
		Ailments:           p.options.ailments,
		Checks:             started.checks(&p.options, p.state, p.sealer),
	})
	in.closers.do(in.Handler.Close)
	started.done(documentsStep, documentsV3Step)
	in.closers.do(housekeeping.Start(joined, p.tasks(ctx, store, admits, reach)...).Close)
	started.done(registeringStep, registeredStep, trackingStep) // by this server, or by the leader
	return in, nil
}

// inside returns the handlers of group versions in this process.
func (p *parts) inside(ctx context.Context, store *resource.Store, access *access) (map[schema.GroupVersion]http.Handler, error) {
	if !p.options.HistoryAPI {
		return p.options.Aggregation.Handlers, nil
	}
	if err := history.EnsureRole(ctx, store); err != nil {
		return nil, err
	}
	all := map[schema.GroupVersion]http.Handler{history.GroupVersion: &history.Handler{Store: store, Authorizer: access}}
	maps.Copy(all, p.options.Aggregation.Handlers)
	return all, nil
}

// admitting is the part of admission that runs tasks beside requests, and its metrics.
type admitting struct {
	metrics   *admission.Metrics
	manifests *manifests.Metrics // nil without manifests
	policies  *policy.Policies
	quotas    *quota.Quotas
}

// admit installs the admission chain and the quotas.
func (p *parts) admit(store *resource.Store, registry *resource.Registry, known *users.Users, access *access, hooks *webhooks, c *closers) (admitting, error) {
	selected := p.options.plugins()
	limits, err := selected.Quota()
	if err != nil {
		return admitting{}, err
	}
	a := admitting{
		metrics:  admission.NewMetrics(),
		policies: policy.New(store, access),
		quotas:   quota.New(registry, quota.Options{Single: p.shared, Enforce: selected.On(quota.Name), Configuration: limits}),
	}
	others := map[string][]admission.Plugin{
		plugins.MutatingAdmissionPolicy:    {a.policies.Mutating()},
		plugins.MutatingAdmissionWebhook:   {hooks.Mutating()},
		plugins.ValidatingAdmissionPolicy:  {a.policies.Readers(), a.policies.Validating()},
		plugins.ValidatingAdmissionWebhook: {hooks.Validating()},
	}
	for _, name := range []string{certificates.Approval, certificates.Signing, certificates.Attest, certificates.SubjectRestriction} {
		others[name] = []admission.Plugin{certificates.New(name, known.Permit)}
	}
	restricted := access.chain.Node
	if slices.Contains(selected.Enable, noderestriction.Name) {
		restricted = func() bool { return true }
	}
	others[noderestriction.Name] = []admission.Plugin{&noderestriction.Plugin{State: p.state, Permit: known.Permit, Active: restricted}}
	if err := p.readManifests(store.Registry(), selected, &a, hooks, c); err != nil {
		return admitting{}, err
	}
	images, err := selected.ImagePolicy()
	if err != nil {
		return admitting{}, err
	}
	if images != nil {
		c.do(images.Close)
		others[imagepolicy.Name] = []admission.Plugin{images}
	}
	if p.options.keepsAccounts() {
		others["ServiceAccount"] = []admission.Plugin{&accountadmission.Plugin{State: p.state}}
	}
	chain, err := selected.Chain(store, access, others, a.metrics)
	if err != nil {
		return admitting{}, err
	}
	var provide func(context.Context, *resource.Request, resource.Tree) error
	if selected.On(plugins.NamespaceAutoProvision) {
		provide = optional.NamespaceAutoProvision{Store: store}.Provide
	}
	store.SetGate(resource.Gate{
		PermitCreate: known.PermitCreate,
		Provide:      provide,
		Admission:    a.metrics.Steps(chain),
		Claim:        a.quotas.Claim,
		Spares:       a.quotas.Spares,
	})
	return a, nil
}

// tasks returns the housekeeping that one of the servers on a journal, the leader, does for all.
func (p *parts) tasks(ctx context.Context, store *resource.Store, a admitting, reach aggregate.Options) []housekeeping.Task {
	log := p.options.Logger
	o := &p.options
	all := append([]housekeeping.Task{p.compact}, registrations(ctx, store, reach)...)
	if p.address != "" { // without a socket, tests expect a kube-system without config maps
		all = append(all, func() func() { return accounts.StartTracking(ctx, store, log).Close })
	}
	do := func(start housekeeping.Task, parts ...string) {
		if o.keepsAny(parts...) {
			all = append(all, start)
		}
	}
	do(func() func() {
		keep := accounts.Options{
			Logger: log, Issuer: p.accounts, Authority: p.rootCA,
			NoAccounts: !o.keeps(keepAccounts), NoTokens: !o.keeps(fillTokens),
		}
		if !o.keeps(publishAuthority) {
			keep.Authority = nil
		}
		return accounts.Start(ctx, store, keep).Close
	}, keepAccounts, publishAuthority, fillTokens)
	do(func() func() { return quotas.Start(ctx, store, a.quotas, log) }, countQuotas)
	do(func() func() {
		return reaper.Start(ctx, store, reaper.Options{
			Logger: log, NamespaceGrace: o.NamespaceGrace,
			KeepGarbage: !o.keeps(collectGarbage), KeepNamespaces: !o.keeps(emptyNamespaces),
			KeepStorage: !o.keeps(releaseStorage), KeepExpired: !o.keeps(endEvents),
		}).Close
	}, collectGarbage, emptyNamespaces, releaseStorage, endEvents)
	do(gatherRoles(ctx, store, log), gatherRules)
	do(func() func() { return a.policies.CheckTypes(log) }, checkPolicies)
	if p.authority != nil {
		do(func() func() { return signer.Start(ctx, store, p.authority, log).Close }, signRequests)
	}
	return all
}

// join registers the server with the other servers on its journal, if the journal can have others,
// and serves the custom resources that they serve. The replica is nil if the journal cannot.
func (p *parts) join(ctx context.Context, store *resource.Store, hooks webhook.Options, c *closers) (*replica.Replica, *crd.Controller, error) {
	log := p.options.Logger
	var joined *replica.Replica
	var peers crd.Peers // nil, not a nil *Replica, if there are none
	var known object.Revision
	if p.shared {
		var err error
		if joined, known, err = replica.Join(ctx, store, replicaName(), log); err != nil {
			return nil, nil, fmt.Errorf("join the servers on %s: %w", p.options.Store, err)
		}
		c.do(joined.Close)
		peers = joined
	}
	custom, err := crd.Start(ctx, store, peers, hooks, log)
	if err != nil {
		return nil, nil, fmt.Errorf("custom resources: %w", err)
	}
	c.do(custom.Close)
	if joined == nil {
		return nil, custom, nil
	}
	// Definitions that the others have established before this server was registered.
	if err := custom.Reach(ctx, known); err != nil {
		return nil, nil, fmt.Errorf("custom resources: %w", err)
	}
	return joined, custom, nil
}

// startAudit returns nil if no request is recorded.
func (p *parts) startAudit(c *closers) (*audit.Auditor, error) {
	if p.options.Audit.PolicyFile == "" {
		return nil, nil
	}
	log := p.options.Logger
	auditor, err := audit.New(p.options.Audit, log)
	if err != nil {
		return nil, err
	}
	c.do(func() {
		if err := auditor.Close(); err != nil {
			log.Error("audit", "err", err)
		}
	})
	return auditor, nil
}

// enlist adds this server to the endpoints of the service kubernetes, while it runs.
func (p *parts) enlist(ctx context.Context, store *resource.Store, c *closers) error {
	server := advertised(p.address, p.options.AdvertiseAddress)
	if err := bootstrap.EnsureKubernetes(ctx, store, server, p.shared, p.options.ServiceAddresses); err != nil {
		return err
	}
	if port := p.options.KubernetesNodePort; port != 0 {
		if err := bootstrap.PublishKubernetes(ctx, store, port); err != nil {
			p.options.Logger.Warn("the API server has no node port", "error", err)
		}
	}
	if p.shared && server.IsValid() {
		c.do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			// If it fails, the address remains in the endpoints, as after a crash, until this server starts
			// again.
			_ = bootstrap.LeaveKubernetes(ctx, store, server)
		})
	}
	return nil
}

// replicaName returns a unique name for this server, which starts with the name of its host.
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
