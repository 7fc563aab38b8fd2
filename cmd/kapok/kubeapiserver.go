package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/crd"
	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/kinds"

	"github.com/spf13/cobra"
)

// apiServer is the command line of the program kube-apiserver. The fields after the first flags are
// those of kapok up, with the names of kube-apiserver.
type apiServer struct {
	bind         string
	port         int
	insecurePort int
	certDir      string
	etcdServers  []string
	verbosity    string
	gates        []string
	tracing      string        // file
	options      kapok.Options // most flags write into them

	stderr io.Writer
}

// apiServerFlags are the flags of kube-apiserver, a line each: the name, and bool where it needs no
// value. The module test/oracle compares them with those of the real one.
//
//go:embed kube-apiserver.flags
var apiServerFlags string

// moreFlags is the variable with flags for a kube-apiserver whose command line is not for its user
// to change.
const moreFlags = "KAPOK_ENVTEST_FLAGS"

// parting is the grace period of requests at shutdown. A test suite that stops the server has no
// requests under way, only connections; an HTTP/2 connection gets a second to close, for which the
// suite would wait.
const parting = 100 * time.Millisecond

// runAPIServer is the program kube-apiserver.
func runAPIServer(args []string, stdout, stderr io.Writer) int {
	s := &apiServer{stderr: stderr}
	c := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "Run in place of kube-apiserver in tests, with Kapok's server",
		Long: `Run in place of kube-apiserver in tests, with Kapok's server.

Flags of kube-apiserver that are not listed are accepted and have no effect. Flags
that kube-apiserver does not have cause a warning. The environment variable ` + moreFlags + `
may contain more flags, separated by spaces.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
	}
	f, o := c.Flags(), &s.options
	f.StringVar(&s.bind, "bind-address", "0.0.0.0", "address to listen on")
	f.IntVar(&s.port, "secure-port", 6443, "port to listen on")
	f.IntVar(&s.insecurePort, "insecure-port", 0, "")
	_ = f.MarkHidden("insecure-port") // clients that look for the flag in the help must not find it
	f.StringVar(&s.certDir, "cert-dir", "/var/run/kubernetes", "directory with apiserver.crt and apiserver.key, used without --tls-cert-file")
	f.StringSliceVar(&s.etcdServers, "etcd-servers", nil, "addresses of etcd: Kapok's, which provides a directory for the state, or a real one, which stores it (default: memory)")
	f.StringVar(&o.Etcd.Prefix, "etcd-prefix", "/registry", "prefix of the keys in a real etcd")
	f.StringVar(&o.Etcd.CAFile, "etcd-cafile", "", "file with the CA of etcd's certificates")
	f.StringVar(&o.Etcd.CertFile, "etcd-certfile", "", "file with the client certificate for etcd")
	f.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", "", "file with the key of that certificate")
	f.StringVar(&o.EncryptionConfig, "encryption-provider-config", "", "file with an EncryptionConfiguration")
	f.StringVarP(&s.verbosity, "v", "v", "0", "log verbosity: from 2 on level info, from 4 on level debug")
	f.StringVar(&o.EmulatedVersion, "emulated-version", "", "release of Kubernetes that the server behaves as: 1.34, 1.35, 1.36 or 1.37 (default 1.37)")
	f.StringSliceVar(&s.gates, "feature-gates", nil, "feature gates; those that Kapok does not have are ignored")
	o.KeepGarbage = true
	f.Var((*chores)(o), "controllers", "also do the work of kube-controller-manager: collect garbage, empty deleted namespaces, create service accounts; and with a list, like '*' or deployment,replicaset, run these controllers")
	f.Lookup("controllers").NoOptDefVal = "true"
	f.BoolVar(&o.RetiredAPIs, "serve-retired-apis", false, "also serve built-in kinds in versions that Kubernetes has removed")
	runtimeConfigFlag(f, &o.RuntimeConfig)
	f.BoolVar(&o.V1beta1CRDs, "crd-v1beta1", false, "also serve CustomResourceDefinitions as apiextensions.k8s.io/v1beta1")
	serviceFlag(f, &o.ServiceAddresses, "10.0.0.0/24")
	nodePortFlags(f, o)
	eventFlag(f, &o.EventTTL)
	addressFlags(f, o)
	requestFlags(f, &o.Requests)
	shutdownFlags(f, o)
	accessFlags(f, &o.Access)
	admissionFlags(f, &o.Admission)
	addAggregation(f, &o.Aggregation)
	nodeFlags(f, &o.Nodes)
	tracingFlag(f, &s.tracing)
	auditFlags(f, &o.Audit)
	accountFlags(c, &o.Accounts)
	authenticationFlags(f, &o.Authentication)
	servingFlags(f, &o.Serving)
	fairnessFlags(f, &o.Fairness)
	told := f.Bool("version", false, "print the version, and exit")
	accept(f, apiServerFlags)
	f.Lookup("authorization-mode").Usage = "authorizers in the order in which they are called: Node, RBAC, Webhook or AlwaysAllow (default AlwaysAllow)"
	more := strings.Fields(os.Getenv(moreFlags))
	if _, unknown := sift(f, more); len(unknown) > 0 {
		fmt.Fprintf(stderr, "kube-apiserver: %s: unknown flags: %s\n", moreFlags, strings.Join(unknown, " "))
		return exitFailure
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *told {
			_, err := fmt.Fprintf(stdout, "Kubernetes %s+kapok\n", kapok.KubernetesVersion)
			return err
		}
		s.options.Flags = flagValues(c.Flags())
		return s.run(c.Context())
	}
	return runForeign(c, append(slices.Clone(args), more...), stdout, stderr)
}

// run serves until ctx is done. It removes the directory that envtest has created for an orphaned
// process, even if the server did not start.
func (s *apiServer) run(ctx context.Context) error {
	err := s.serve(ctx)
	if orphaned(ctx) {
		err = errors.Join(errOrphan, err, removeScratch(s.certDir))
	}
	return err
}

func (s *apiServer) serve(ctx context.Context) error {
	opts, giveBack, err := s.complete(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	end, err := traceTo(s.tracing, &opts)
	if err != nil {
		return err
	}
	defer end()
	started, stop := beThrifty()
	defer stop()
	server, err := kapok.Start(ctx, opts)
	if err != nil {
		return err
	}
	started()
	opts.Logger.Info("ready", "address", server.Address())
	defer context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), opts.ShutdownDelay+opts.ShutdownWatchGrace+parting)
		defer cancel()
		_ = server.Shutdown(patience) // Wait returns its error
	})()
	return server.Wait()
}

// complete returns the options, with the settings that depend on several flags, and a function to
// call after the server has stopped.
func (s *apiServer) complete(ctx context.Context) (opts kapok.Options, giveBack func(), err error) {
	if s.insecurePort != 0 {
		return opts, nil, errors.New("--insecure-port must be 0: there is none since Kubernetes 1.24")
	}
	opts = s.options
	opts.Etcd = kapok.EtcdOptions{} // unless there is one
	opts.Listen = net.JoinHostPort(s.bind, strconv.Itoa(s.port))
	opts.Logger = slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: s.level()}))
	opts.GroupByGroupDiscovery = s.groupByGroup()
	opts.FeatureGates = s.gateSettings().Set
	// Suites turn on alpha versions, which Kapok does not have.
	served := kinds.WithRetired()
	kinds.Emulate(served, s.gateSettings())
	opts.RuntimeConfig = kinds.Selection(opts.RuntimeConfig).Known(append(served, crd.Definition(true)))
	s.authorize(&opts)
	if err := s.certificate(&opts); err != nil {
		return opts, nil, err
	}
	giveBack, err = s.store(ctx, &opts)
	return opts, giveBack, err
}

// groupByGroup reports whether the feature gate of aggregated discovery is set to false. The last
// value counts.
func (s *apiServer) groupByGroup() (off bool) {
	for _, gate := range s.gates {
		if name, value, _ := strings.Cut(gate, "="); name == "AggregatedDiscoveryEndpoint" {
			on, err := strconv.ParseBool(value)
			off = err == nil && !on
		}
	}
	return off
}

// gateSettings returns the feature gates that Kapok has: suites also set others, for many releases.
func (s *apiServer) gateSettings() gates.Settings {
	release, _ := emulation.Parse(s.options.EmulatedVersion) // which the server validates
	known := map[string]bool{}
	for _, gate := range s.gates {
		name, value, _ := strings.Cut(strings.TrimPrefix(gate, "kube:"), "=")
		on, err := strconv.ParseBool(value)
		one := gates.Settings{Release: release, Set: map[string]bool{name: on}}
		if err == nil && one.Check() == nil {
			known[name] = on
		}
	}
	return gates.Settings{Release: release, Set: known}
}

func (s *apiServer) level() slog.Level {
	switch n, _ := strconv.Atoi(s.verbosity); {
	case n >= 4:
		return slog.LevelDebug
	case n >= 2:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// authorize allows all requests if no mode is set, as kube-apiserver does.
func (s *apiServer) authorize(opts *kapok.Options) {
	access := &opts.Access
	if len(access.Modes) == 0 && access.ConfigFile == "" {
		access.Modes = []string{"AlwaysAllow"}
	}
}

// certificate sets the serving certificate to the one in --cert-dir, if no flag names another and
// the directory has one.
func (s *apiServer) certificate(opts *kapok.Options) error {
	serving := &opts.Serving
	if serving.CertFile != "" || serving.KeyFile != "" {
		return nil
	}
	pair := []string{filepath.Join(s.certDir, "apiserver.crt"), filepath.Join(s.certDir, "apiserver.key")}
	var missing []string
	for _, file := range pair {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, file)
		} else if err != nil {
			return fmt.Errorf("--cert-dir: %w", err)
		}
	}
	switch len(missing) {
	case 0:
		serving.CertFile, serving.KeyFile = pair[0], pair[1]
	case 1:
		return fmt.Errorf("--cert-dir: there is no %s: certificate and key must be a pair", missing[0])
	}
	return nil
}

// store configures the storage: the data directory on loan from an etcd of Kapok, a real etcd, or
// memory.
func (s *apiServer) store(ctx context.Context, opts *kapok.Options) (giveBack func(), err error) {
	none := func() {}
	if len(s.etcdServers) == 0 {
		return none, nil
	}
	first := s.etcdServers[0]
	if strings.HasPrefix(first, "http://") {
		lent, giveBack, err := rent(ctx, first)
		if err != nil {
			return none, err
		}
		if lent != nil {
			opts.DataDir, opts.UnsafeNoFsync = lent.DataDir, lent.NoFsync
			return giveBack, nil
		}
	}
	if strings.HasPrefix(first, "https://") && s.options.Etcd.CAFile == "" {
		return none, fmt.Errorf("--etcd-servers=%s: https needs --etcd-cafile", first)
	}
	var hosts []string
	for _, server := range s.etcdServers {
		_, host, found := strings.Cut(server, "://")
		if !found {
			host = server
		}
		hosts = append(hosts, strings.TrimSuffix(host, "/"))
	}
	opts.Store, opts.Etcd = "etcd://"+strings.Join(hosts, ","), s.options.Etcd
	return none, nil
}
