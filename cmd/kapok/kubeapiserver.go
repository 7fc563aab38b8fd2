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
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/cobra"
)

// apiServer is the command line of the program kube-apiserver. What follows its first flags is as in kapok up, under
// kube-apiserver's own names.
type apiServer struct {
	bind         string
	port         int
	insecurePort int
	certDir      string
	etcdServers  []string
	etcd         kapok.EtcdOptions
	encryption   string
	verbosity    string
	gates        []string
	services     netip.Prefix

	access      kapok.AccessOptions
	accounts    kapok.AccountOptions
	admission   kapok.AdmissionOptions
	aggregation kapok.AggregationOptions
	audit       kapok.AuditOptions
	authn       kapok.AuthenticationOptions
	fairness    fairnessFlags

	// What a kube-apiserver does not have.
	controllers bool
	retired     bool
	v1beta1CRDs bool

	stderr io.Writer
}

// apiServerFlags are the flags of kube-apiserver, a line each: the name, and bool where it needs no value. The module test/oracle
// compares them with those of the real one.
//
//go:embed kube-apiserver.flags
var apiServerFlags string

// moreFlags is the variable with flags for a kube-apiserver whose command line is not for its user to change.
const moreFlags = "KAPOK_ENVTEST_FLAGS"

// parting is how long requests may go on when the server is told to end. A suite that ends it has none, but connections; over HTTP/2 each of them
// is given a second to take notice, which the suite would wait for.
const parting = 100 * time.Millisecond

// runAPIServer is the program kube-apiserver.
func runAPIServer(args []string, stdout, stderr io.Writer) int {
	s := &apiServer{stderr: stderr}
	c := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "Serve the Kubernetes API, as Kapok does, where a test expects kube-apiserver",
		Long: `Serve the Kubernetes API, as Kapok does, where a test expects kube-apiserver.

Flags of kube-apiserver that are not shown are accepted, and mean nothing here.
Those that it does not have are named in a warning. The variable ` + moreFlags + `
may hold more of them, with spaces between.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
	}
	f := c.Flags()
	f.StringVar(&s.bind, "bind-address", "0.0.0.0", "address to listen on")
	f.IntVar(&s.port, "secure-port", 6443, "port to listen on")
	f.IntVar(&s.insecurePort, "insecure-port", 0, "")
	_ = f.MarkHidden("insecure-port") // who asks for help to see whether it is there must not find it
	f.StringVar(&s.certDir, "cert-dir", "/var/run/kubernetes", "directory with apiserver.crt and apiserver.key, where --tls-cert-file is not given")
	f.StringSliceVar(&s.etcdServers, "etcd-servers", nil, "where etcd is: Kapok's own, which lends a directory for the state, or a real one, which keeps it (default: memory)")
	f.StringVar(&s.etcd.Prefix, "etcd-prefix", "/registry", "what the keys in a real etcd begin with")
	f.StringVar(&s.etcd.CAFile, "etcd-cafile", "", "file with the authority of etcd's certificates")
	f.StringVar(&s.etcd.CertFile, "etcd-certfile", "", "file with the client certificate for etcd")
	f.StringVar(&s.etcd.KeyFile, "etcd-keyfile", "", "file with the key of that certificate")
	f.StringVar(&s.encryption, "encryption-provider-config", "", "file with an EncryptionConfiguration")
	f.StringVarP(&s.verbosity, "v", "v", "0", "how much is logged: from 2 on what happens, from 4 on everything")
	f.StringSliceVar(&s.gates, "feature-gates", nil, "AggregatedDiscoveryEndpoint=false is heeded, and no other")
	f.BoolVar(&s.controllers, "controllers", false, "also do what kube-controller-manager does: collect garbage, empty namespaces that are deleted, make service accounts")
	f.BoolVar(&s.retired, "serve-retired-apis", false, "also serve built-in kinds in versions that Kubernetes has retired")
	f.BoolVar(&s.v1beta1CRDs, "crd-v1beta1", false, "also serve CustomResourceDefinitions as apiextensions.k8s.io/v1beta1")
	serviceFlag(f, &s.services, "10.0.0.0/24")
	accessFlags(f, &s.access)
	admissionFlags(f, &s.admission)
	addAggregation(f, &s.aggregation)
	auditFlags(f, &s.audit)
	accountFlags(c, &s.accounts)
	authenticationFlags(c, &s.authn)
	s.fairness.add(f)
	told := f.Bool("version", false, "print the version, and exit")
	accept(f, apiServerFlags)
	f.Lookup("authorization-mode").Usage = "who is asked what users may do, in this order: RBAC, Webhook, AlwaysAllow (default AlwaysAllow)"
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
		return s.run(c.Context())
	}
	return runForeign(c, append(slices.Clone(args), more...), stdout, stderr)
}

// run serves until ctx is done. What envtest has made for an orphan goes with it, whether or not it has come to serve.
func (s *apiServer) run(ctx context.Context) error {
	err := s.serve(ctx)
	if orphaned(ctx) {
		err = errors.Join(errOrphan, err, removeScratch(s.certDir))
	}
	return err
}

func (s *apiServer) serve(ctx context.Context) error {
	opts, giveBack, err := s.options(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	started, stop := beThrifty()
	defer stop()
	server, err := kapok.Start(ctx, opts)
	if err != nil {
		return err
	}
	started()
	opts.Logger.Info("ready", "address", server.Address())
	defer context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), parting)
		defer cancel()
		_ = server.Shutdown(patience) // Wait tells what it returns
	})()
	return server.Wait()
}

// options are what the flags mean, and what to call when the server has ended.
func (s *apiServer) options(ctx context.Context) (opts kapok.Options, giveBack func(), err error) {
	if s.insecurePort != 0 {
		return opts, nil, errors.New("--insecure-port must be 0: there is none since Kubernetes 1.24")
	}
	opts = kapok.Options{
		Listen:           net.JoinHostPort(s.bind, strconv.Itoa(s.port)),
		Logger:           slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: s.level()})),
		EncryptionConfig: s.encryption,
		Access:           s.access, Accounts: s.accounts, Admission: s.admission, Aggregation: s.aggregation,
		Audit: s.audit, Authentication: s.authn, Fairness: s.fairness.options(),
		ServiceAddresses: s.services,

		KeepGarbage: !s.controllers,
		RetiredAPIs: s.retired,
		V1beta1CRDs: s.v1beta1CRDs,

		GroupByGroupDiscovery: s.groupByGroup(),
	}
	s.authorize(&opts)
	s.admit(&opts)
	if err := s.certificate(&opts); err != nil {
		return opts, nil, err
	}
	giveBack, err = s.store(ctx, &opts)
	return opts, giveBack, err
}

// groupByGroup says whether the one feature gate is off that is heeded. The last value counts.
func (s *apiServer) groupByGroup() (off bool) {
	for _, gate := range s.gates {
		if name, value, _ := strings.Cut(gate, "="); name == "AggregatedDiscoveryEndpoint" {
			on, err := strconv.ParseBool(value)
			off = err == nil && !on
		}
	}
	return off
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

// authorize lets everybody in where nothing is said, as kube-apiserver does, and takes the mode Node away, which is about
// nodes: there are none.
func (s *apiServer) authorize(opts *kapok.Options) {
	access := &opts.Access
	if len(access.Modes) == 0 && access.ConfigFile == "" {
		access.Modes = []string{"AlwaysAllow"}
	}
	if len(access.Modes) > 1 {
		access.Modes = slices.DeleteFunc(slices.Clone(access.Modes), func(mode string) bool { return mode == "Node" })
	}
}

// admit takes away plugins that are not there, and says so.
func (s *apiServer) admit(opts *kapok.Options) {
	missing := opts.Admission.Missing()
	if len(missing) == 0 {
		return
	}
	opts.Logger.Warn("admission plugins are not turned on, for Kapok does not have them", "plugins", strings.Join(missing, ","))
	opts.Admission.Enable = slices.DeleteFunc(slices.Clone(opts.Admission.Enable), func(name string) bool { return slices.Contains(missing, name) })
}

// certificate takes the one in the directory of certificates, if there is one and nothing else is said.
func (s *apiServer) certificate(opts *kapok.Options) error {
	serving := &opts.Authentication.Serving
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

// store says where the state is: in the directory that an etcd of Kapok lends, in a real etcd, or in memory.
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
	if strings.HasPrefix(first, "https://") && s.etcd.CAFile == "" {
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
	opts.Store, opts.Etcd = "etcd://"+strings.Join(hosts, ","), s.etcd
	return none, nil
}
