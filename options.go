package kapok

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/plugins"
	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authn/methods"
	"github.com/kapok-dev/kapok/internal/authn/oidc"
	"github.com/kapok-dev/kapok/internal/authn/remote"
	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/authz/modes"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/server"
	"github.com/kapok-dev/kapok/internal/transport"

	"go.opentelemetry.io/otel/trace"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Options are the settings of a server. With zero values it keeps everything in memory and opens no
// socket.
type Options struct {
	// DataDir is the directory of the persistent state: objects (unless Store is set), certificates,
	// the kubeconfig. It is created if it is missing, is private to its owner, and is locked by one
	// server at a time. Default: no state outlives the process.
	DataDir string

	// UnsafeNoFsync lets the operating system decide when writes to DataDir reach the disk. Objects
	// survive the end of the process, but not a crash of the machine. It is for tests, like etcd's
	// flag of that name. Needs DataDir.
	UnsafeNoFsync bool

	// Store is an etcd that stores the objects instead of DataDir, as etcd://HOST:PORT,HOST:PORT. Any
	// number of servers can share one. Keys and values are those of kube-apiserver. The kubeconfig of
	// one server is also valid for the others, except for the address.
	Store string

	// Etcd configures the connection to the etcd of Store. Needs Store.
	Etcd EtcdOptions

	// EncryptionConfig is a file with Kubernetes' EncryptionConfiguration, which selects the kinds
	// that are encrypted at rest. It is read again when it changes. Needs DataDir or Store. Default:
	// no encryption.
	EncryptionConfig string

	// HistoryMemory is the maximum size in bytes of the history of changes that memory holds for
	// watches. Default 32 MiB.
	HistoryMemory int
	// HistoryDisk is the maximum size in bytes of the history in DataDir. Default 1 GiB.
	HistoryDisk int64
	// HistoryAge is the time that the history of changes is retained, within HistoryMemory and
	// HistoryDisk: watches resume, and lists continue, from a resourceVersion that is not older. Older
	// ones return 410 Gone, as if kube-apiserver had compacted etcd; running watches continue. If
	// several servers share a Store, the setting of the server that compacts it applies. Default 5
	// minutes; without DataDir and Store, as long as memory allows.
	HistoryAge time.Duration

	// Archive selects the objects whose revisions are kept when they leave the history, and for how
	// long: lists and watches do not return them, but HistoryAPI does. Needs DataDir. Default: none.
	Archive ArchiveOptions
	// HistoryAPI serves history.kapok.dev/v1, by which users read the revisions of an object that the
	// server still has. Servers that share a Store must have the same setting. Default: not served.
	HistoryAPI bool

	// Progress is called while Start reads DataDir, after every 1024 records, or Store, after every
	// 500 keys, with the number of objects that it has read, and of those that there are. It must not
	// block. Default: it is not called.
	Progress func(read, total int64)

	// Listen is the address of the TLS socket, HOST:PORT; port 0 picks a free one, an empty host means
	// all interfaces. Default: no socket.
	Listen string

	// Listener is an open socket to accept connections from, for example one that systemd has opened.
	// The server closes it when it ends; if Start returns an error, the caller closes it, which may
	// have been done. Needs Listen, which is its address. Default: the server opens Listen.
	Listener net.Listener

	// Serving configures the certificate and the TLS parameters of the socket. Needs Listen.
	Serving ServingOptions

	// Kubeconfig is the file that the admin's kubeconfig is written to when the server is ready. A
	// file that Kapok has written before is removed at the start; any other existing file is an error.
	// Needs Listen. Default: kubeconfig in DataDir, none without DataDir.
	Kubeconfig string

	// ExternalHost is the name or IP address of the server in documents for clients, with or without
	// a port: in /api, and in the discovery document of service account tokens. Needs Listen. Default:
	// the address of the socket.
	ExternalHost string
	// AdvertiseAddress is the IP address of the server in the endpoints of the service kubernetes,
	// where pods reach it. The certificate of the server's own authority has it. Needs Listen.
	// Default: that of the socket; for one on all interfaces, the first that is not a loopback
	// address.
	AdvertiseAddress netip.Addr
	// Requests configure how long requests last, and headers of all responses.
	Requests RequestOptions

	// Authentication selects how users besides the admin are authenticated.
	Authentication AuthenticationOptions
	// Accounts configures service accounts and their tokens.
	Accounts AccountOptions
	// Access selects the authorizers. Default: those of nodes, and of roles and bindings.
	Access AccessOptions
	// Admission selects and configures admission plugins. Default: those of Kubernetes.
	Admission AdmissionOptions
	// Webhooks configures the connections to admission and conversion webhooks.
	Webhooks WebhookOptions
	// Fairness bounds concurrent requests, their memory, and watches.
	Fairness FairnessOptions
	// Audit selects which requests are recorded, and where. Default: none.
	Audit AuditOptions
	// Aggregation configures aggregated API servers, and proxies in front of the server.
	Aggregation AggregationOptions
	// Nodes configures connections to kubelets, pods and services.
	Nodes NodeOptions

	// Logger receives the log of the server. Default: nothing is logged.
	Logger *slog.Logger

	// V1beta1CRDs also serves CustomResourceDefinitions as apiextensions.k8s.io/v1beta1, which
	// Kubernetes has removed.
	V1beta1CRDs bool

	// RetiredAPIs also serves built-in kinds in versions that Kubernetes has removed, such as
	// apps/v1beta1, with a warning. Objects are stored in the same form.
	RetiredAPIs bool

	// RuntimeConfig turns versions of built-in kinds on or off, as kube-apiserver's flag of this name:
	// api/all, api/ga, api/beta, api/alpha, GROUP/VERSION such as batch/v1 (api/v1 is the core group),
	// or GROUP/VERSION/RESOURCE such as batch/v1/cronjobs, which is stronger than those before it. A
	// key that names nothing is an error. Objects of what is off stay in the store. Default: all are
	// on.
	RuntimeConfig map[string]bool

	// EmulatedVersion is the release of Kubernetes that the server behaves as, 1.34 to 1.37, as
	// kube-apiserver's flag of this name: it serves the versions of kinds that the release has, with
	// the feature gates of the release. Default: 1.37.
	EmulatedVersion string

	// FeatureGates are feature gates of Kubernetes by their names, as kube-apiserver's flag of this
	// name. All can be set to their default in EmulatedVersion; docs/feature-gates.md lists those that
	// can have another value. Other values are errors. Default: those of Kubernetes.
	FeatureGates map[string]bool

	// GroupByGroupDiscovery makes clients discover each group by a request of its own, as Kubernetes
	// did before 1.27.
	GroupByGroupDiscovery bool

	// ServiceAddresses is the range of the cluster IPs of services, IPv4, with a prefix of 12 to 30
	// bits. The service kubernetes has its first address. It is used for an empty store; later,
	// ServiceCIDRs define the ranges. Default 10.96.0.0/12.
	ServiceAddresses netip.Prefix

	// NodePorts is the range of the node ports of services. Services keep ports outside of it that
	// they have. Default 30000-32767.
	NodePorts utilnet.PortRange

	// KubernetesNodePort is the node port of the service kubernetes, one of NodePorts, which it gets
	// at the start unless it has a type other than ClusterIP. Default: none.
	KubernetesNodePort int

	// EventTTL is the time after its last write at which an event is deleted. Negative means never.
	// Default 1 hour.
	EventTTL time.Duration

	// KeepGarbage turns off tasks that are not done by kube-apiserver itself: deletion of dependents
	// whose owners no longer exist, of the contents of deleted namespaces, and of expired events; and
	// the status of admission policies. It is for programs with controllers of their own for these.
	KeepGarbage bool

	// Housekeeping turns off tasks of the server because another program, such as a
	// kube-controller-manager, does them: -gc, -namespace, -root-ca and so on; -* is all of them. A
	// name without the - turns the task on. The last entry for a task counts. The function
	// Housekeeping returns the names; others are errors. KeepGarbage is like -*, and Accounts.None
	// like -accounts, -root-ca and -tokens; neither can be reversed here. Default: the server does
	// everything.
	Housekeeping []string

	// Controllers run in this process, on the objects of the server: controllers.Options has those of
	// Kubernetes. If several servers share a Store, they elect the one whose controllers run. Default:
	// none.
	Controllers Controllers

	// Debug serves the paths below /debug/, for example profiles by net/http/pprof, to users who are
	// permitted to get them. Default: these paths do not exist.
	Debug http.Handler

	// Flags are the settings of this program that /flagz shows to users who are permitted to get it.
	// They should hold no secrets. Default: /flagz does not exist.
	Flags map[string]string

	// TracerProvider receives a span for each request of an authenticated user, and for the parts that
	// may take long: the wait for a seat, webhooks, other servers, the write to the store. It decides
	// which requests are recorded. Spans that clients send are parents for members of system:masters
	// and system:monitoring, for others links. The caller shuts it down after the server. Default:
	// there are no spans.
	TracerProvider trace.TracerProvider

	// Front wraps the handler of the socket, to serve further paths or to change requests. It is
	// called once, before the first request. What it serves itself is neither authenticated nor
	// bounded by Fairness. Connections in this process do not pass it. Needs Listen. Default: none.
	Front func(api http.Handler) http.Handler

	// NamespaceGrace is the delay before the objects of a terminating namespace are deleted, so that a
	// client that deletes the namespace and then its objects, like kubectl delete -f, still finds
	// them. Kubernetes waits for 5 seconds. Default: no delay.
	NamespaceGrace time.Duration

	// ShutdownDelay is the time that the server serves all requests as before when it is to stop,
	// while /readyz fails, so that load balancers stop sending requests to it. Default: no delay.
	ShutdownDelay time.Duration

	// ShutdownRetryAfter makes the server, when it stops, accept connections until the requests under
	// way have ended, and reject new requests with 429 and Retry-After, except those for /healthz,
	// /livez, /readyz and /metrics. Default: new connections are refused.
	ShutdownRetryAfter bool

	// ShutdownWatchGrace is the time over which the server, when it stops, ends watches one after
	// another, at least 200 in a second, so that not all clients list and watch at another server at
	// the same time. Default: they end at once.
	ShutdownWatchGrace time.Duration
}

// Validate returns an error for options that are out of range or contradict each other. Start
// returns the same error. Validate reads the files of client certificates, and no others.
func (o *Options) Validate() error { return (*server.Options)(o).Validate() }

// The options of the parts of a server. The command in each comment prints the fields.
type (
	// AccessOptions select the authorizers:
	//
	//	go doc github.com/kapok-dev/kapok/internal/authz/modes.Options
	AccessOptions = modes.Options
	// AccountOptions configure service accounts and their tokens:
	//
	//	go doc github.com/kapok-dev/kapok/internal/authn/serviceaccount.Options
	AccountOptions = serviceaccount.Options
	// AdmissionOptions select and configure admission plugins:
	//
	//	go doc github.com/kapok-dev/kapok/internal/admission/plugins.Options
	AdmissionOptions = plugins.Options
	// AggregationOptions configure aggregated API servers, and proxies in front of the server:
	//
	//	go doc github.com/kapok-dev/kapok/internal/server.AggregationOptions
	AggregationOptions = server.AggregationOptions
	// AuditOptions configure the audit log:
	//
	//	go doc github.com/kapok-dev/kapok/internal/audit.Options
	AuditOptions = audit.Options
	// AuthenticationOptions select how users are authenticated:
	//
	//	go doc github.com/kapok-dev/kapok/internal/authn/methods.Options
	AuthenticationOptions = methods.Options
	// Controllers run with a server, on its objects:
	//
	//	go doc github.com/kapok-dev/kapok/internal/server.Controllers
	Controllers = server.Controllers
	// Together are several Controllers that run at the same time:
	//
	//	go doc github.com/kapok-dev/kapok/internal/server.Together
	Together = server.Together
	// ArchiveOptions select the objects whose revisions are kept:
	//
	//	go doc github.com/kapok-dev/kapok/internal/journal.Archive
	ArchiveOptions = journal.Archive
	// ArchiveRule says for how long the revisions of some objects are kept:
	//
	//	go doc github.com/kapok-dev/kapok/internal/journal.ArchiveRule
	ArchiveRule = journal.ArchiveRule
	// EtcdOptions configure the connection to the etcd of Options.Store:
	//
	//	go doc github.com/kapok-dev/kapok/internal/journal/etcd.Connection
	EtcdOptions = etcd.Connection
	// FairnessOptions bound concurrent requests, their memory, and watches:
	//
	//	go doc github.com/kapok-dev/kapok/internal/fairness.Options
	FairnessOptions = fairness.Options
	// NodeOptions configure connections to kubelets, pods and services:
	//
	//	go doc github.com/kapok-dev/kapok/internal/server.NodeOptions
	NodeOptions = server.NodeOptions
	// OIDCOptions describe an OpenID Connect provider:
	//
	//	go doc github.com/kapok-dev/kapok/internal/authn/oidc.Options
	OIDCOptions = oidc.Options
	// RequestOptions configure how long requests last, and the headers of all responses:
	//
	//	go doc github.com/kapok-dev/kapok/internal/endpoint.RequestOptions
	RequestOptions = endpoint.RequestOptions
	// NamedCertificate is a certificate for clients that connect to one of its names:
	//
	//	go doc github.com/kapok-dev/kapok/internal/transport.NamedCertificate
	NamedCertificate = transport.NamedCertificate
	// RequestHeaderOptions configure authentication by the headers of a proxy:
	//
	//	go doc github.com/kapok-dev/kapok/internal/authn.RequestHeaderOptions
	RequestHeaderOptions = authn.RequestHeaderOptions
	// ServingOptions configure the certificate and the TLS parameters of the socket:
	//
	//	go doc github.com/kapok-dev/kapok/internal/transport.ServingOptions
	ServingOptions = transport.ServingOptions
	// TokenWebhookOptions configure the webhook that authenticates bearer tokens:
	//
	//	go doc github.com/kapok-dev/kapok/internal/authn/remote.Options
	TokenWebhookOptions = remote.Options
	// WebhookOptions configure the connections to webhooks:
	//
	//	go doc github.com/kapok-dev/kapok/internal/server.WebhookOptions
	WebhookOptions = server.WebhookOptions
)

// Housekeeping returns the names that Options.Housekeeping accepts.
func Housekeeping() []string { return server.Housekeeping() }
