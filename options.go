package kapok

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"
)

// Options are the settings of a server. With zero values it keeps everything in
// memory and opens no socket.
type Options struct {
	// DataDir is the directory for what must outlive the process: objects (unless
	// Store says otherwise), certificates, the kubeconfig. It is made if it is missing, is for its owner
	// only, and belongs to one server at a time. Default: nothing outlives the
	// process.
	DataDir string

	// UnsafeNoFsync leaves to the operating system when what has been written to DataDir goes to the disk. Objects
	// outlive the process, however it ends, but not a crash of the machine. It is for tests, as etcd's flag of that name.
	UnsafeNoFsync bool

	// Store is where the objects are kept, if not in DataDir: an etcd, as
	// etcd://HOST:PORT,HOST:PORT. Any number of servers may share one. Objects are
	// where kube-apiserver keeps them; a kubeconfig of one server is good for the
	// others, too, but for the address.
	Store string

	// Etcd says how to reach the etcd of Store.
	Etcd EtcdOptions

	// EncryptionConfig is a file with Kubernetes' EncryptionConfiguration, which
	// says which kinds are encrypted where they are stored. It is read again when
	// it changes. Default: none is.
	EncryptionConfig string

	// Listen is the address of the TLS socket, HOST:PORT; port 0 picks a free
	// one, an empty host means all interfaces. Default: no socket.
	Listen string

	// Kubeconfig is the file that the admin's kubeconfig is written to when the
	// server is ready. A file that Kapok wrote before is removed at the start;
	// one that it did not write is an error. Needs Listen. Default: kubeconfig in
	// DataDir, none without it.
	Kubeconfig string

	// Access says who decides what users may do. Default: roles and bindings.
	Access AccessOptions
	// Authentication says who is known besides the admin.
	Authentication AuthenticationOptions

	// Logger gets what the server has to tell. Default: nothing is logged.
	Logger *slog.Logger

	// HistoryMemory bounds the history of changes that memory holds for watches,
	// in bytes. Default 32 MiB.
	HistoryMemory int
	// HistoryDisk bounds the history in DataDir, in bytes. Default 1 GiB.
	HistoryDisk int64
	// HistoryAge is how long changes stay in DataDir at least, within HistoryDisk,
	// so that watches can resume. Default 5 minutes.
	HistoryAge time.Duration

	// Audit says what is written down of requests, and where. Default: nothing is.
	Audit AuditOptions

	// V1beta1CRDs also serves apiextensions.k8s.io/v1beta1, which Kubernetes no
	// longer does, for the definitions of older texts.
	V1beta1CRDs bool

	// RetiredAPIs also serves the built-in kinds in versions that Kubernetes has
	// retired, as apps/v1beta1, with a warning. What is stored is the same.
	RetiredAPIs bool

	// GroupByGroupDiscovery has clients ask for each group by itself to learn what is served, as with Kubernetes before 1.27.
	GroupByGroupDiscovery bool

	// ServiceAddresses are the cluster IPs of services, IPv4, of which the service kubernetes has the first. It is of a store that
	// is empty; later, ServiceCIDRs say. Default: 10.96.0.0/12.
	ServiceAddresses netip.Prefix

	// KeepGarbage leaves alone what kube-apiserver alone leaves alone: dependents of
	// owners that are gone, contents of deleted namespaces, expired events; and the status
	// of admission policies. It is for programs that bring controllers of their own for these.
	KeepGarbage bool

	// NamespaceGrace is how long a namespace keeps what is in it once it is being
	// deleted, so that who deletes both finds both, as kubectl delete -f does.
	// Kubernetes waits for 5 seconds. Default: it does not wait.
	NamespaceGrace time.Duration

	// Webhooks say how webhooks of admission and of conversion are reached.
	Webhooks WebhookOptions
	// Accounts are about service accounts and their tokens.
	Accounts AccountOptions
	// Admission says which admission plugins judge what users write.
	Admission AdmissionOptions
	// Fairness says how much the server does at a time, and for whom.
	Fairness FairnessOptions
	// Aggregation says how the server works together with others that serve groups of their own behind it.
	Aggregation AggregationOptions

	// newHandler replaces the inside of the server in tests of its shell.
	newHandler func(context.Context, parts) (handler, error)
}

// EtcdOptions say how to reach an etcd; zero values mean the defaults.
type EtcdOptions struct {
	// Prefix is what all keys begin with. Default /registry.
	Prefix string
	// CAFile, CertFile and KeyFile are files in PEM: the authority that has signed
	// etcd's certificates, and a client's certificate and key. Default: no TLS.
	CAFile, CertFile, KeyFile string
	// Username and Password are for an etcd that asks for them.
	Username, Password string
}

// complete fills in defaults, and refuses what cannot be.
func (o *Options) complete() error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.newHandler == nil {
		o.newHandler = newHandler
	}
	if o.HistoryMemory < 0 || o.HistoryDisk < 0 || o.HistoryAge < 0 {
		return errors.New("bounds of history must not be negative")
	}
	if o.NamespaceGrace < 0 {
		return errors.New("the grace of namespaces must not be negative")
	}
	if p := o.ServiceAddresses; p.IsValid() && (!p.Addr().Is4() || p.Bits() < 12 || p.Bits() > 30) {
		return fmt.Errorf("cluster IPs %s: want a range of IPv4 addresses, of 4 to 1,048,576, like 10.96.0.0/12", p)
	}
	if err := o.Accounts.complete(); err != nil {
		return err
	}
	if err := o.Admission.validate(); err != nil {
		return err
	}
	if err := o.Fairness.complete(); err != nil {
		return err
	}
	if o.Store == "" && o.Etcd != (EtcdOptions{}) {
		return errors.New("how to reach an etcd is said, and not which: set Store")
	}
	if o.Store != "" {
		if _, err := o.etcd(); err != nil {
			return err
		}
	}
	if err := o.Aggregation.complete(); err != nil {
		return err
	}
	if o.UnsafeNoFsync && o.DataDir == "" {
		return errors.New("how a data directory is written is said, and not which: set DataDir")
	}
	if o.EncryptionConfig != "" && o.Store == "" && o.DataDir == "" {
		return errors.New("encryption is for what is stored: set DataDir or Store")
	}
	if err := o.Audit.check(); err != nil {
		return err
	}
	if err := o.Authentication.complete(o.Listen != ""); err != nil {
		return err
	}
	if o.Listen == "" {
		if o.Kubeconfig != "" {
			return errors.New("a kubeconfig is for a server with a socket: set Listen")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT, like 127.0.0.1:6443", o.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("listen address %q: port %q must be a number from 0 to 65535, 0 picks a free one", o.Listen, port)
	}
	if o.Kubeconfig == "" && o.DataDir != "" {
		o.Kubeconfig = filepath.Join(o.DataDir, "kubeconfig")
	}
	return nil
}
