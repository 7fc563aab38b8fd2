package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"
	"github.com/kapok-dev/kapok/console"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/node/stages"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// up is the command line of kapok up. Most flags write into options.
type up struct {
	options       kapok.Options
	inMemory      bool
	controllers   controllers.Options
	logLevel      logLevel
	logFormat     logFormat
	profiling     bool
	tracing       string // file
	endTraces     func() // ends what complete has started
	verbose       bool
	scheduler     schedule
	nodes         simulated.Options
	process       processNode
	console       bool
	provider      console.Provider  // its flags
	login         *console.Provider // nil without these flags
	stages        []string          // files and directories
	answerObjects bool
	addresses     bool   // --service-cluster-ip-range is set
	config        string // file
	detach        bool
	noContext     bool
	instance      *named                     // nil for a server without a name
	reading       *progress                  // of the store; nil shows nothing
	excluded      func(*cobra.Command) error // refuses flags that exclude each other
}

func newUp() *cobra.Command { return newUpState().command() }

func newUpState() *up {
	return &up{logLevel: logLevel(slog.LevelWarn), logFormat: "text", endTraces: func() {}}
}

// configure sets what the command line leaves open.
func (u *up) configure(f *pflag.FlagSet, args []string) error {
	var project *instance.Project
	if len(args) == 0 && !f.Changed("data-dir") && os.Getenv(instanceVariable) == "" {
		var err error
		if project, err = projectHere(); err != nil {
			return err
		}
	}
	err := configure(f, u.config, project)
	u.scheduler.off = f.Changed("scheduler") && !u.scheduler.on
	u.addresses = f.Changed("service-cluster-ip-range")
	return err
}

func (u *up) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "up [NAME]",
		Short: "Run the server until it is interrupted",
		Long: `Run the server until it is interrupted.

NAME is the instance, of which each has its own data directory and port; default is
$KAPOK_INSTANCE, the instance of the project if this folder or one above has a kapok.yaml, or
the instance "default". Its context, kapok-NAME, is added to your kubeconfig and selected.

The data directory contains the objects, the certificates and, while the server runs, the
admin's kubeconfig. The kubeconfig is written in one step when the server is ready, so that
scripts can wait for the file. A server with --data-dir, and one with --in-memory or --store
and without NAME, is no instance: it has no context.`,
		Example: `  kapok up
  kapok up demo --detach
  kapok up --in-memory --listen 127.0.0.1:0 --kubeconfig ./kubeconfig
  kapok up --store etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379`,
		Args:              maybeOneArg("NAME"),
		ValidArgsFunction: completeInstance,
		RunE:              u.execute,
	}
	helpInSections(c, u.flags(c))
	completeUp(c)
	exclude(c, "data-dir", "in-memory")
	exclude(c, "store", "in-memory")
	exclude(c, "unsafe-no-fsync", "in-memory")
	exclude(c, "encryption-provider-config", "in-memory")
	exclude(c, "archive", "in-memory")
	exclude(c, "archive", "store")
	exclude(c, "log-level", "verbose")
	exclude(c, "tls-san", "tls-cert-file")
	excluded := c.PreRunE
	u.excluded = func(c *cobra.Command) error { return excluded(c, nil) }
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if err := u.configure(c.Flags(), args); err != nil {
			return failed(err)
		}
		return u.excluded(c)
	}
	return c
}

// execute runs the command.
func (u *up) execute(c *cobra.Command, args []string) (err error) {
	if err := u.inherit(c.Flags()); err != nil {
		return err
	}
	if u.instance, err = choose(args, c.Flags(), u.noContext); err != nil {
		return err
	}
	stderr := c.ErrOrStderr()
	if u.instance != nil {
		u.instance.stderr = stderr
		stderr = io.MultiWriter(stderr, u.instance.log)
	}
	opts, err := u.complete(stderr)
	defer u.endTraces()
	if err != nil {
		return err
	}
	opts.Flags = flagValues(c.Flags())
	u.reading = newProgress(c.ErrOrStderr(), "Reading the store", objects, func(text string) { opts.Logger.Warn(text) })
	opts.Progress = u.reading.report
	if u.detach && os.Getenv(detachedVariable) == "" {
		if u.instance == nil {
			return errors.New("--detach requires an instance: set NAME, and do not set --data-dir")
		}
		return failed(u.instance.detach(c.Context(), c.OutOrStdout(), c.ErrOrStderr()))
	}
	return failed(inFlags(u.run(c.Context(), opts, c.OutOrStdout()), c.Flags(), &u.options))
}

// flags defines the flags, and returns the titles of the sections of their help.
func (u *up) flags(c *cobra.Command) (titles []string) {
	f, o := c.Flags(), &u.options
	section := func(title string, add func()) {
		titles = append(titles, title)
		inSection(f, title, add)
	}
	section("Instance and address", func() {
		f.StringVar(&o.Listen, "listen", "127.0.0.1:6443", "address of the TLS socket, HOST:PORT; port 0 picks a free one. An instance without this flag takes the first free port from 6443, and keeps it")
		f.StringVar(&u.config, "config", "", "file with a ServerConfiguration (default $"+configurationVariable+", or the kapok.yaml of the project)")
		addressFlags(f, o)
		f.BoolVar(&u.detach, "detach", false, "run the instance in the background, and return when it is ready")
		f.BoolVar(&u.noContext, "no-context", false, "do not add the context of the instance to your kubeconfig")
		f.StringVar(&o.Kubeconfig, "kubeconfig", "", "file to write the admin's kubeconfig to (default kubeconfig in the data directory, a temporary file with --in-memory)")
		f.BoolVar(&u.console, "console", true, "serve the console, a web page that shows the objects, at /console")
		f.StringVar(&u.provider.ClientID, "console-oidc-client-id", "", "ID of the console at an OpenID Connect provider, by which users can then log in; the server must accept tokens with this audience (default: users need a link or a token)")
		f.StringVar(&u.provider.Issuer, "console-oidc-issuer-url", "", "URL of that provider (default that of --oidc-issuer-url)")
	})
	section("Where objects are stored", func() {
		f.StringVar(&o.DataDir, "data-dir", "", "directory for the state, instead of that of an instance")
		f.BoolVar(&u.inMemory, "in-memory", false, "keep the state in memory only: it is lost when the process ends")
		f.BoolVar(&o.UnsafeNoFsync, "unsafe-no-fsync", false, "let the operating system decide when the state is written to disk: the state survives a crash of the process, but not of the machine")
		f.StringVar(&o.Store, "store", "", "address of an etcd that stores the objects instead of the data directory, etcd://HOST:PORT,HOST:PORT; several servers may share it")
		f.StringVar(&o.Etcd.Prefix, "etcd-prefix", "/registry", "prefix of the keys in etcd")
		f.StringVar(&o.Etcd.CAFile, "etcd-cafile", "", "file with the CA of etcd's certificates")
		f.StringVar(&o.Etcd.CertFile, "etcd-certfile", "", "file with the client certificate for etcd")
		f.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", "", "file with the key of the client certificate for etcd")
		f.StringVar(&o.Etcd.Username, "etcd-username", "", "user name for etcd; the password is read from the environment variable "+etcdPassword)
		f.StringVar(&o.EncryptionConfig, "encryption-provider-config", "", "file with an EncryptionConfiguration for encryption at rest")
		f.DurationVar(&o.HistoryAge, "history-age", 5*time.Minute, "time for which history is retained, so that watches can be resumed and paginated lists continued; older revisions return 410 Gone")
		archiveFlags(f, &o.Archive)
	})
	section("APIs", func() {
		f.BoolVar(&o.V1beta1CRDs, "crd-v1beta1", true, "also accept and serve CustomResourceDefinitions as apiextensions.k8s.io/v1beta1")
		f.BoolVar(&o.RetiredAPIs, "serve-retired-apis", false, "also accept and serve built-in kinds in versions that Kubernetes has removed, like apps/v1beta1, with a warning")
		runtimeConfigFlag(f, &o.RuntimeConfig)
		releaseFlags(f, &o.EmulatedVersion, &o.FeatureGates)
		serviceFlag(f, &o.ServiceAddresses, "10.96.0.0/12")
		nodePortFlags(f, o)
		eventFlag(f, &o.EventTTL)
		f.DurationVar(&o.NamespaceGrace, "namespace-grace", 5*time.Second, "delay before the objects of a terminating namespace are deleted, so that kubectl delete -f still finds them if the file contains both the namespace and the objects")
		addAggregation(f, &o.Aggregation)
	})
	section("Controllers, scheduler and nodes", func() {
		f.StringSliceVar(&o.Housekeeping, "housekeeping", nil, "housekeeping tasks to turn off, each with a leading - (-* turns off all), for example if a kube-controller-manager runs. Tasks: "+strings.Join(kapok.Housekeeping(), ", "))
		controllersFlags(f, &u.controllers, []string{"*"}, "built-in controllers to run; an empty value runs none")
		schedulerFlags(f, &u.scheduler)
		f.IntVar(&u.nodes.Nodes, "nodes", 0, "simulated nodes to run: pods on them behave as on kubelets, without containers")
		processFlags(f, &u.process)
		f.StringArrayVar(&u.stages, "stages", nil, "file or directory with KWOK's Stages, which say how objects change, such as pods on simulated nodes; may be repeated")
		f.BoolVar(&u.answerObjects, "answer-objects", false, "let KWOK's Logs, Exec, Attach and PortForward objects on the server answer for simulated nodes, not only those of --stages: users that may create them read files and run programs as this user")
		nodeFlags(f, &o.Nodes)
	})
	section("Authentication and TLS", func() {
		authenticationFlags(f, &o.Authentication)
		servingFlags(f, &o.Serving)
		f.StringArrayVar(&o.Serving.Names, "tls-san", nil, "additional DNS name or IP address in the serving certificate that the server's own CA signs; may be repeated")
		accountFlags(c, &o.Accounts)
	})
	section("Authorization and admission", func() {
		accessFlags(f, &o.Access)
		admissionFlags(f, &o.Admission)
	})
	section("Limits", func() {
		fairnessFlags(f, &o.Fairness)
		requestFlags(f, &o.Requests)
		shutdownFlags(f, o)
	})
	section("Logs, traces and audit", func() {
		f.Var(&u.logLevel, "log-level", "lowest level that is logged: debug, info, warn, error")
		f.Var(&u.logFormat, "log-format", "form of the log on the standard error: text or json")
		f.BoolVarP(&u.verbose, "verbose", "v", false, "same as --log-level=info")
		f.BoolVar(&u.profiling, "profiling", true, "serve profiles of the process at /debug/pprof/; a request needs permission to get the path")
		tracingFlag(f, &u.tracing)
		auditFlags(f, &o.Audit)
	})
	return titles
}

// completeUp has shells complete the values of flags that are words.
func completeUp(c *cobra.Command) {
	completeValues(c, "log-level", "debug", "info", "warn", "error")
	completeValues(c, "log-format", "text", "json")
	completeValues(c, "node", "process")
	completeValues(c, "tls-min-version", "VersionTLS12", "VersionTLS13")
	completeValues(c, "authorization-webhook-version", "v1", "v1beta1")
	completeValues(c, "authentication-token-webhook-version", "v1", "v1beta1")
	completeValues(c, "authorization-mode", "Node", "RBAC", "Webhook", "AlwaysAllow")
	var off []string
	for _, task := range kapok.Housekeeping() {
		off = append(off, "-"+task)
	}
	completeValues(c, "housekeeping", off...)
	completeValues(c, "controllers", append([]string{"*"}, controllers.Names()...)...)
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

	if u.instance != nil {
		end, err := u.instance.begin(ctx, &opts)
		if err != nil {
			return err
		}
		defer end()
		os.Unsetenv(detachedVariable) // it is not for processes of the server
	}

	remove, err := u.process.place(opts.DataDir)
	if err != nil {
		return err
	}
	defer remove()

	// The first signal shuts the server down gracefully, the second one stops it at once.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	switch {
	case signal.Ignored(syscall.SIGHUP): // as nohup would have it
	case onTerminal():
		signals = append(signals, syscall.SIGHUP)
	default:
		defer hangUps(opts.Logger)()
	}
	ctx, restore := signal.NotifyContext(ctx, signals...)
	defer restore()
	context.AfterFunc(ctx, restore)

	link := noConsole
	if u.console {
		opts.Front, link = frontConsole(opts.Serving, u.login)
	}
	server, err := kapok.Start(ctx, opts)
	u.reading.end()
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stdout, "Stopped before the server was ready.")
		return nil
	case err != nil:
		return err
	}
	started()
	u.process.serve(server)
	context := ""
	if u.instance != nil {
		context = u.instance.ready(server)
	}
	welcome(stdout, server, opts, greeting{context: context, console: link(server), ready: time.Since(begin)})
	if u.instance != nil {
		if err := u.instance.done(server); err != nil {
			return errors.Join(err, server.Stop())
		}
	}

	stopping, err := notifySystemd(ctx, server, opts.Logger)
	if err != nil {
		return errors.Join(err, server.Stop())
	}
	defer stopping()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Wait() }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		stopping()
		fmt.Fprintln(stdout, "Stopping. Interrupt again to stop at once.")
		return <-stopped
	}
}

// onTerminal reports whether a terminal is at the process, whose end ends the server.
func onTerminal() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) || term.IsTerminal(int(os.Stdout.Fd()))
}

// hangUps keeps SIGHUP from ending a server without a terminal: services are sent it to load their
// files again, which the server does by itself. stop ends that.
func hangUps(log *slog.Logger) (stop func()) {
	received, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(received, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range received {
			log.Info("SIGHUP: files that have changed are loaded within 10 seconds, also without it")
		}
	}()
	return func() {
		signal.Stop(received)
		close(received)
		<-done
	}
}

// complete returns the options, with the settings that depend on several flags.
func (u *up) complete(stderr io.Writer) (kapok.Options, error) {
	opts := u.options
	opts.HistoryAPI = true
	if opts.Listen == "" {
		return kapok.Options{}, errors.New("--listen must not be empty: want HOST:PORT, like 127.0.0.1:6443")
	}
	if err := checkWords(&opts); err != nil {
		return kapok.Options{}, err
	}
	var err error
	if u.login, err = u.loginProvider(&opts.Authentication); err != nil {
		return kapok.Options{}, err
	}
	level := slog.Level(u.logLevel)
	if u.verbose {
		level = slog.LevelInfo
	}
	opts.Logger = u.logFormat.logger(stderr, level)
	if u.profiling {
		opts.Debug = profiles()
	}
	end, err := traceTo(u.tracing, &opts)
	if err != nil {
		return kapok.Options{}, err
	}
	u.endTraces, u.controllers.Manager.TracerProvider = end, opts.TracerProvider
	node, err := u.process.complete(opts.Listen)
	if err != nil {
		return kapok.Options{}, err
	}
	if node != nil {
		opts.Nodes.LoopbackEndpoints = true
		if !u.addresses {
			opts.ServiceAddresses = processServices
		}
		node.Services = opts.ServiceAddresses
		reachPods(&opts, node)
	}
	var runs kapok.Together
	if len(u.controllers.Names) > 0 {
		u.controllers.NodeIPAM.ServiceCIDRs = []netip.Prefix{opts.ServiceAddresses}
		runs = append(runs, u.controllers)
	} else if o := u.controllers; o.LoadBalancerPool != nil || o.NodeIPAM.ClusterCIDRs != nil || o.LocalPath.Default || o.Shard {
		return kapok.Options{}, errors.New("--load-balancer-pool, --cluster-cidr, --local-path-default-class and --shard-controllers have no effect because --controllers is empty")
	}
	var handlers []func(string) http.Handler
	metrics := &simulated.Metrics{} // of nodes of both kinds
	if node != nil {
		node.Metrics = metrics
		runs, handlers = append(runs, node), append(handlers, node.Handler)
	}
	played, err := u.completeStages(opts.Listen)
	if err != nil {
		return kapok.Options{}, err
	}
	if played != nil {
		kubelet := &simulated.Kubelet{}
		played.Nodes.Kubelet, played.Nodes.Metrics = kubelet, metrics
		runs, handlers = append(runs, *played), append(handlers, kubelet.Handler)
	}
	schedules, err := u.scheduler.complete(u.nodes.Nodes != 0 || node != nil)
	if err != nil {
		return kapok.Options{}, err
	}
	if schedules != nil {
		runs = append(runs, *schedules)
	}
	if len(handlers) > 0 {
		opts.Aggregation.Handlers = map[schema.GroupVersion]http.Handler{simulated.MetricsVersion: metrics}
		opts.Nodes.Kubelets = kubelets(handlers...)
	}
	if len(runs) > 0 {
		opts.Controllers = runs
	}
	if err := u.completeStore(&opts); err != nil {
		return kapok.Options{}, err
	}
	return opts, nil
}

// completeStages returns what plays the stages of simulated nodes and other objects, nil without
// any.
func (u *up) completeStages(listen string) (*stages.Options, error) {
	if u.nodes.Nodes < 0 {
		return nil, fmt.Errorf("--nodes is %d: must not be negative", u.nodes.Nodes)
	}
	if u.answerObjects && !u.process.isLoopback(listen) {
		return nil, fmt.Errorf("--answer-objects with --listen %s: users on other machines could run programs on this one", listen)
	}
	if u.nodes.Nodes == 0 && len(u.stages) == 0 && !u.answerObjects {
		return nil, nil
	}
	o := &stages.Options{Nodes: u.nodes, AnswerObjects: u.answerObjects}
	var err error
	if o.Stages, err = stages.Read(u.stages...); err != nil {
		return nil, fmt.Errorf("--stages: %w", err)
	}
	if o.Usages, err = stages.ReadUsages(u.stages...); err != nil {
		return nil, fmt.Errorf("--stages: %w", err)
	}
	if o.Answers, err = stages.ReadAnswers(u.stages...); err != nil {
		return nil, fmt.Errorf("--stages: %w", err)
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("--stages: %w", err)
	}
	return o, nil
}

// completeStore sets where objects and the kubeconfig are stored.
func (u *up) completeStore(opts *kapok.Options) error {
	switch {
	case opts.Store != "":
		opts.Etcd.Password = os.Getenv(etcdPassword)
	case opts.Etcd != kapok.EtcdOptions{Prefix: opts.Etcd.Prefix}:
		return errors.New("flags --etcd-... require --store etcd://HOST:PORT")
	default:
		opts.Etcd = kapok.EtcdOptions{}
	}
	if u.instance != nil && opts.Kubeconfig == "" {
		opts.Kubeconfig = filepath.Join(u.instance.Dir, "kubeconfig")
	}
	if u.inMemory {
		return nil
	}
	if u.instance != nil {
		opts.DataDir = u.instance.Dir
	}
	if opts.DataDir == "" {
		dir, err := defaultDataDir()
		if err != nil {
			return fmt.Errorf("no default for --data-dir: %w", err)
		}
		opts.DataDir = dir
	}
	if err := checkDirectory("data directory", opts.DataDir); err != nil {
		return failed(err)
	}
	if opts.Kubeconfig == "" {
		opts.Kubeconfig = filepath.Join(opts.DataDir, "kubeconfig")
	}
	return nil
}

// etcdPassword is the environment variable with the password for etcd: command lines are visible to
// all users of the machine.
const etcdPassword = "KAPOK_ETCD_PASSWORD"

// A greeting is what the user who started the server learns beside its address.
type greeting struct {
	context string // "" if none was selected
	console string // a link; "" if there is no console
	ready   time.Duration
}

// welcome prints the first steps for the user who started the server.
func welcome(w io.Writer, s *kapok.Server, opts kapok.Options, g greeting) {
	store := "memory, lost when the process ends"
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
	if g.context != "" {
		fmt.Fprintf(w, "  context  %s\n", g.context)
	}
	if g.console != "" {
		fmt.Fprintf(w, "  console  %s\n", g.console)
	}
	fmt.Fprintf(w, "  ready    after %d ms\n\n", g.ready.Milliseconds())
	fmt.Fprintf(w, "In another shell:\n\n  %s\n  kubectl api-resources\n\n", export("KUBECONFIG", file))
}

// reachable returns the URL of a server that listens on an address, for users.
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

// defaultDataDir returns the data directory by the XDG base directories, or their
// equivalent of other systems.
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
