package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/cobra"
)

// up is the command line of kapok up.
type up struct {
	listen      string
	dataDir     string
	inMemory    bool
	noFsync     bool
	store       string
	etcd        kapok.EtcdOptions
	encryption  string
	audit       kapok.AuditOptions
	authn       kapok.AuthenticationOptions
	kubeconfig  string
	v1beta1CRDs bool
	retired     bool
	accounts    kapok.AccountOptions
	grace       time.Duration
	services    netip.Prefix
	access      kapok.AccessOptions
	admission   kapok.AdmissionOptions
	fairness    fairnessFlags
	aggregation kapok.AggregationOptions
	logLevel    slog.Level
	verbose     bool
}

func newUp() *cobra.Command {
	u := &up{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the server until it is interrupted",
		Long: `Run the server until it is interrupted.

Objects, certificates and an admin's kubeconfig are kept in the data directory.
The kubeconfig is complete whenever it exists, and is written when the server is
ready: a script can wait for it.`,
		Example: `  kapok up
  kapok up --in-memory --listen 127.0.0.1:0 --kubeconfig ./kubeconfig
  kapok up --store etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opts, err := u.options(c.ErrOrStderr())
			if err != nil {
				return err
			}
			return failed(u.run(c.Context(), opts, c.OutOrStdout()))
		},
	}
	f := c.Flags()
	f.StringVar(&u.listen, "listen", "127.0.0.1:6443", "address of the TLS socket, HOST:PORT; port 0 picks a free one")
	f.StringVar(&u.dataDir, "data-dir", "", "directory that keeps the state (default "+shown(defaultDataDir())+")")
	f.BoolVar(&u.inMemory, "in-memory", false, "keep no state on disk; it ends with the process")
	f.BoolVar(&u.noFsync, "unsafe-no-fsync", false, "leave to the operating system when the state goes to the disk: it outlives the process, but not a crash of the machine")
	f.StringVar(&u.store, "store", "", "etcd that keeps the objects in place of the data directory, etcd://HOST:PORT,HOST:PORT; any number of servers may share it")
	f.StringVar(&u.etcd.Prefix, "etcd-prefix", "/registry", "what the keys in etcd begin with")
	f.StringVar(&u.etcd.CAFile, "etcd-cafile", "", "file with the authority of etcd's certificates")
	f.StringVar(&u.etcd.CertFile, "etcd-certfile", "", "file with the client certificate for etcd")
	f.StringVar(&u.etcd.KeyFile, "etcd-keyfile", "", "file with the key of that certificate")
	f.StringVar(&u.etcd.Username, "etcd-username", "", "user of an etcd that asks for one; the password is in the environment, "+etcdPassword)
	f.StringVar(&u.encryption, "encryption-provider-config", "", "file with an EncryptionConfiguration: which kinds are encrypted where they are stored")
	f.StringVar(&u.kubeconfig, "kubeconfig", "", "file for the admin's kubeconfig (default kubeconfig in the data directory, a temporary file with --in-memory)")
	f.BoolVar(&u.v1beta1CRDs, "crd-v1beta1", true, "also accept and serve CustomResourceDefinitions as apiextensions.k8s.io/v1beta1")
	f.BoolVar(&u.retired, "serve-retired-apis", false, "also accept and serve built-in kinds in versions that Kubernetes has retired, like apps/v1beta1, with a warning")
	serviceFlag(f, &u.services, "10.96.0.0/12")
	f.DurationVar(&u.grace, "namespace-grace", 5*time.Second, "how long a namespace that is being deleted keeps what is in it, so that kubectl delete -f finds it")
	accessFlags(f, &u.access)
	admissionFlags(f, &u.admission)
	u.fairness.add(f)
	f.TextVar(&u.logLevel, "log-level", slog.LevelWarn, "least level that is logged: debug, info, warn, error")
	f.BoolVarP(&u.verbose, "verbose", "v", false, "log what happens, as with --log-level=info")
	auditFlags(f, &u.audit)
	accountFlags(c, &u.accounts)
	authenticationFlags(c, &u.authn)
	addAggregation(f, &u.aggregation)
	c.MarkFlagsMutuallyExclusive("data-dir", "in-memory")
	c.MarkFlagsMutuallyExclusive("store", "in-memory")
	c.MarkFlagsMutuallyExclusive("unsafe-no-fsync", "in-memory")
	c.MarkFlagsMutuallyExclusive("encryption-provider-config", "in-memory")
	c.MarkFlagsMutuallyExclusive("log-level", "verbose")
	return c
}

func (u *up) run(ctx context.Context, opts kapok.Options, stdout io.Writer) error {
	begin := time.Now()
	started, stop := beThrifty()
	defer stop()
	if opts.Kubeconfig == "" {
		// Nothing is kept, so the kubeconfig ends with the process, too.
		dir, err := os.MkdirTemp("", "kapok-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		opts.Kubeconfig = filepath.Join(dir, "kubeconfig")
	}

	// The first signal stops the server in good order, the second one at once.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup would have it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, restore := signal.NotifyContext(ctx, signals...)
	defer restore()
	context.AfterFunc(ctx, restore)

	server, err := kapok.Start(ctx, opts)
	if err != nil {
		return err
	}
	started()
	welcome(stdout, server, opts, time.Since(begin))

	stopped := make(chan error, 1)
	go func() { stopped <- server.Wait() }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		fmt.Fprintln(stdout, "Stopping. Interrupt again to stop at once.")
		return <-stopped
	}
}

func (u *up) options(stderr io.Writer) (kapok.Options, error) {
	if u.listen == "" {
		return kapok.Options{}, errors.New("--listen must not be empty: want HOST:PORT, like 127.0.0.1:6443")
	}
	level := u.logLevel
	if u.verbose {
		level = slog.LevelInfo
	}
	opts := kapok.Options{
		Listen:      u.listen,
		Kubeconfig:  u.kubeconfig,
		Logger:      slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
		V1beta1CRDs: u.v1beta1CRDs,
		RetiredAPIs: u.retired,

		NamespaceGrace:   u.grace,
		ServiceAddresses: u.services,
		Store:            u.store,
		EncryptionConfig: u.encryption,
		Audit:            u.audit,
		Access:           u.access,
		Accounts:         u.accounts,
		Authentication:   u.authn,
		Admission:        u.admission,
		Fairness:         u.fairness.options(),
		Aggregation:      u.aggregation,
	}
	if u.store != "" {
		opts.Etcd = u.etcd
		opts.Etcd.Password = os.Getenv(etcdPassword)
	} else if u.etcd != (kapok.EtcdOptions{Prefix: u.etcd.Prefix}) {
		return kapok.Options{}, errors.New("flags --etcd-... are for --store etcd://HOST:PORT")
	}
	if u.inMemory {
		return opts, nil
	}
	opts.DataDir, opts.UnsafeNoFsync = u.dataDir, u.noFsync
	if opts.DataDir == "" {
		dir, err := defaultDataDir()
		if err != nil {
			return kapok.Options{}, fmt.Errorf("no default for --data-dir: %w", err)
		}
		opts.DataDir = dir
	}
	if opts.Kubeconfig == "" {
		opts.Kubeconfig = filepath.Join(opts.DataDir, "kubeconfig")
	}
	return opts, nil
}

// etcdPassword is the variable with the password for etcd: command lines can be
// read by everybody on the machine.
const etcdPassword = "KAPOK_ETCD_PASSWORD"

// welcome says what somebody needs who has just started the server.
func welcome(w io.Writer, s *kapok.Server, opts kapok.Options, ready time.Duration) {
	store := "memory, ends with the process"
	switch {
	case opts.Store != "":
		store = opts.Store
	case opts.DataDir != "":
		store = opts.DataDir
	}
	file := opts.Kubeconfig
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	fmt.Fprintf(w, "Kapok serves Kubernetes 1.37.\n\n")
	fmt.Fprintf(w, "  address  %s\n", reachable(s.Address()))
	fmt.Fprintf(w, "  store    %s\n", store)
	fmt.Fprintf(w, "  ready    after %d ms\n\n", ready.Milliseconds())
	fmt.Fprintf(w, "In another shell:\n\n  %s\n  kubectl api-resources\n\n", export("KUBECONFIG", file))
}

// reachable is where a server is reached that listens on an address.
func reachable(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsUnspecified() {
		return "https://" + address
	}
	return fmt.Sprintf("https://127.0.0.1:%d, and all other addresses of this machine", at.Port())
}

// export is the line that sets a variable of the shell to a path.
func export(name, path string) string {
	if runtime.GOOS == "windows" {
		return `$env:` + name + ` = '` + strings.ReplaceAll(path, `'`, `''`) + `'`
	}
	if strings.ContainsAny(path, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
		path = `'` + strings.ReplaceAll(path, `'`, `'\''`) + `'`
	}
	return "export " + name + "=" + path
}

// defaultDataDir follows the XDG base directories, and what other systems have
// in their place.
func defaultDataDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kapok"), nil
	}
	switch runtime.GOOS {
	case "windows":
		if dir := os.Getenv("LocalAppData"); dir != "" {
			return filepath.Join(dir, "kapok"), nil
		}
		return "", errors.New("%LocalAppData% is not set")
	case "darwin":
		home, err := os.UserHomeDir()
		return filepath.Join(home, "Library", "Application Support", "kapok"), err
	default:
		home, err := os.UserHomeDir()
		return filepath.Join(home, ".local", "share", "kapok"), err
	}
}

func shown(dir string, err error) string {
	if err != nil {
		return "none: " + err.Error()
	}
	return dir
}
