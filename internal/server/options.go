package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/plugins"
	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/authn/methods"
	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/authz/modes"
	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/transport"

	"go.opentelemetry.io/otel/trace"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Options are those of package kapok, which documents each field. Package kapok declares a type of
// its own instead of an alias, since go doc and pkg.go.dev do not show the fields behind an alias
// of an internal type. kapok.Start converts one into the other, which compiles only while the
// fields are equal.
type Options struct {
	DataDir               string
	UnsafeNoFsync         bool
	Store                 string
	Etcd                  etcd.Connection
	EncryptionConfig      string
	HistoryMemory         int
	HistoryDisk           int64
	HistoryAge            time.Duration
	Archive               journal.Archive
	HistoryAPI            bool
	Progress              func(read, total int64)
	Listen                string
	Listener              net.Listener
	Serving               transport.ServingOptions
	Kubeconfig            string
	ExternalHost          string
	AdvertiseAddress      netip.Addr
	Requests              endpoint.RequestOptions
	Authentication        methods.Options
	Accounts              serviceaccount.Options
	Access                modes.Options
	Admission             plugins.Options
	Webhooks              WebhookOptions
	Fairness              fairness.Options
	Audit                 audit.Options
	Aggregation           AggregationOptions
	Nodes                 NodeOptions
	Logger                *slog.Logger
	V1beta1CRDs           bool
	RetiredAPIs           bool
	RuntimeConfig         map[string]bool
	EmulatedVersion       string
	FeatureGates          map[string]bool
	GroupByGroupDiscovery bool
	ServiceAddresses      netip.Prefix
	NodePorts             utilnet.PortRange
	KubernetesNodePort    int
	EventTTL              time.Duration
	KeepGarbage           bool
	Housekeeping          []string
	Controllers           Controllers
	Debug                 http.Handler
	Flags                 map[string]string
	TracerProvider        trace.TracerProvider
	Front                 func(api http.Handler) http.Handler
	NamespaceGrace        time.Duration
	ShutdownDelay         time.Duration
	ShutdownRetryAfter    bool
	ShutdownWatchGrace    time.Duration
}

// Journals are the storage of the journals of a server, for tests that replace it with [StartOn].
// Package kapok has no such option.
type Journals struct {
	// Memory keeps the objects of a server without DataDir and Store, and outlives the server.
	// Default: the objects are lost when the server stops.
	Memory *memory.Store
	// Pebble are options of the journal in DataDir, such as its file system. The server sets Dir,
	// Logger, Sealer, Unsynced, Progress and Archive. Default: the zero value.
	Pebble pebble.Options
}

// withDefaults fills in the defaults of valid options.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Kubeconfig == "" && o.Listen != "" && o.DataDir != "" {
		o.Kubeconfig = filepath.Join(o.DataDir, "kubeconfig")
	}
	return o
}

// nodePorts returns the range of the node ports.
func (o *Options) nodePorts() utilnet.PortRange {
	if o.NodePorts.Size != 0 {
		return o.NodePorts
	}
	r := services.DefaultRanges().NodePorts
	return utilnet.PortRange{Base: r.First, Size: r.Size}
}

// gates returns the settings of the feature gates. Validate has checked EmulatedVersion.
func (o *Options) gates() gates.Settings {
	release, _ := emulation.Parse(o.EmulatedVersion)
	return gates.Settings{Release: release, Set: o.FeatureGates}
}

// plugins returns the admission plugins, without those of features that are off.
func (o *Options) plugins() plugins.Options {
	selected, settings := o.Admission, o.gates()
	for _, p := range []struct{ gate, plugin string }{
		{gates.MutatingAdmissionPolicy, "MutatingAdmissionPolicy"},
		{gates.NodeDeclaredFeatures, "NodeDeclaredFeatureValidator"},
		{gates.PodTopologyLabels, "PodTopologyLabels"},
	} {
		if !settings.Enabled(p.gate) {
			selected.Disable = append(slices.Clone(selected.Disable), p.plugin)
		}
	}
	return selected
}

// shownFlags returns what /flagz shows; nil if it does not exist.
func (o *Options) shownFlags() map[string]string {
	if !o.gates().Enabled(gates.Flagz) {
		return nil
	}
	return o.Flags
}

// Validate returns an error for options that are out of range or contradict each other. It reads
// the files of client certificates.
func (o *Options) Validate() error {
	if o.HistoryMemory < 0 || o.HistoryDisk < 0 || o.HistoryAge < 0 {
		return fmt.Errorf("Options.HistoryMemory is %d, HistoryDisk is %d, HistoryAge is %v: none of them can be negative",
			o.HistoryMemory, o.HistoryDisk, o.HistoryAge)
	}
	if err := o.Archive.Validate(); err != nil {
		return fmt.Errorf("Options.Archive: %w", err)
	}
	if len(o.Archive.Rules) > 0 && o.DataDir == "" {
		return errors.New("Options.Archive has rules but Options.DataDir is not set: only a data directory has an archive")
	}
	if o.NamespaceGrace < 0 {
		return fmt.Errorf("Options.NamespaceGrace is %v: it cannot be negative", o.NamespaceGrace)
	}
	if p := o.ServiceAddresses; p.IsValid() && (!p.Addr().Is4() || p.Bits() < 12 || p.Bits() > 30) {
		return fmt.Errorf("Options.ServiceAddresses is %s: want a range of IPv4 addresses with a prefix of 12 to 30 bits, like 10.96.0.0/12", p)
	}
	if o.ShutdownDelay < 0 {
		return fmt.Errorf("Options.ShutdownDelay is %v: it cannot be negative", o.ShutdownDelay)
	}
	if o.ShutdownWatchGrace < 0 {
		return fmt.Errorf("Options.ShutdownWatchGrace is %v: it cannot be negative", o.ShutdownWatchGrace)
	}
	if p := o.NodePorts; p != (utilnet.PortRange{}) && (p.Base < 1 || p.Size < 1 || p.Base+p.Size-1 > 65535) {
		return fmt.Errorf("Options.NodePorts is %d-%d: want a range of ports from 1 to 65535, like 30000-32767", p.Base, p.Base+p.Size-1)
	}
	if p, all := o.KubernetesNodePort, o.nodePorts(); p != 0 && !all.Contains(p) {
		return fmt.Errorf("Options.KubernetesNodePort is %d: want 0, or one of the node ports %s", p, all.String())
	}
	if _, err := emulation.Parse(o.EmulatedVersion); err != nil {
		return fmt.Errorf("Options.EmulatedVersion: %w", err)
	}
	if err := o.gates().Check(); err != nil {
		return fmt.Errorf("Options.FeatureGates: %w", err)
	}
	if err := o.Requests.Validate(); err != nil {
		return err
	}
	if err := o.checkHousekeeping(); err != nil {
		return err
	}
	if o.Controllers != nil {
		if err := o.Controllers.Validate(); err != nil {
			return err
		}
	}
	if err := o.Accounts.Validate(); err != nil {
		return err
	}
	if err := o.Admission.Validate(); err != nil {
		return err
	}
	if err := o.Fairness.Validate(); err != nil {
		return err
	}
	if o.Store == "" && o.Etcd != (etcd.Connection{}) {
		return errors.New(`Options.Etcd is set but Options.Store is not: set Store to "etcd://HOST:PORT"`)
	}
	if o.Store != "" {
		if err := o.Etcd.Validate(o.Store); err != nil {
			return err
		}
	}
	if err := o.Aggregation.Validate(); err != nil {
		return err
	}
	if err := o.Nodes.Validate(); err != nil {
		return err
	}
	if o.UnsafeNoFsync && o.DataDir == "" {
		return errors.New("Options.UnsafeNoFsync is set but Options.DataDir is not: set DataDir")
	}
	if o.EncryptionConfig != "" && o.Store == "" && o.DataDir == "" {
		return fmt.Errorf("Options.EncryptionConfig is %q but the server stores nothing: set DataDir or Store", o.EncryptionConfig)
	}
	if err := o.Audit.Validate(); err != nil {
		return err
	}
	if err := o.Access.Validate(); err != nil {
		return err
	}
	if o.Listen == "" && (o.Authentication.ClientCAFile != "" || !reflect.DeepEqual(o.Serving, transport.ServingOptions{})) {
		return errors.New("Options.Serving or Options.Authentication.ClientCAFile is set but Options.Listen is not: set Listen to HOST:PORT, like 127.0.0.1:6443")
	}
	if err := o.Authentication.Validate(); err != nil {
		return err
	}
	if err := o.Serving.Validate(); err != nil {
		return err
	}
	if o.Listen == "" {
		if o.Listener != nil {
			return errors.New("Options.Listener is set but Options.Listen is not: set Listen to the address of the listener")
		}
		if o.Front != nil {
			return errors.New("Options.Front is set but Options.Listen is not: set Listen to HOST:PORT, like 127.0.0.1:6443")
		}
		if o.ExternalHost != "" || o.AdvertiseAddress.IsValid() {
			return errors.New("Options.ExternalHost or AdvertiseAddress is set but Options.Listen is not: set Listen to HOST:PORT, like 127.0.0.1:6443")
		}
		if o.Kubeconfig != "" {
			return fmt.Errorf("Options.Kubeconfig is %q but Options.Listen is not set: set Listen to HOST:PORT, like 127.0.0.1:6443", o.Kubeconfig)
		}
		return nil
	}
	if err := o.checkAddresses(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("Options.Listen is %q: want HOST:PORT, like 127.0.0.1:6443", o.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("Options.Listen is %q: port %q must be a number from 0 to 65535, 0 picks a free one", o.Listen, port)
	}
	return nil
}
