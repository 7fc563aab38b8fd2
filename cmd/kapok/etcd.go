package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// An etcd runs where a test expects an etcd. It answers health checks and stores no objects itself:
// it tells Kapok's kube-apiserver the directory in which to store them. The objects therefore live
// as long as those in a real etcd, whichever kube-apiserver serves them.
type etcd struct {
	urls    string
	dataDir string
	noFsync bool

	mu   sync.Mutex
	held bool // by a kube-apiserver
}

// A tenancy is the response to a kube-apiserver that requests tenancyPath to learn where to store
// objects. The response stays open as long as the directory is in use.
type tenancy struct {
	DataDir string `json:"dataDir"`
	NoFsync bool   `json:"noFsync"`
}

const tenancyPath = "/kapok/data-dir"

// etcdFlags are the flags of etcd, as in kube-apiserver.flags.
//
//go:embed etcd.flags
var etcdFlags string

// etcdVersion is that of the etcd whose place it takes.
const etcdVersion = "3.7.3"

// runEtcd is the program etcd.
func runEtcd(args []string, stdout, stderr io.Writer) int {
	e := &etcd{}
	c := &cobra.Command{
		Use:           "etcd",
		Short:         "Run in place of etcd in tests, for Kapok's kube-apiserver",
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
	}
	f := c.Flags()
	f.StringVar(&e.urls, "listen-client-urls", "http://localhost:2379", "URLs to listen on, http://HOST:PORT, separated by commas")
	f.StringVar(&e.dataDir, "data-dir", "default.etcd", "directory for the state")
	f.BoolVar(&e.noFsync, "unsafe-no-fsync", false, "let the operating system decide when the state is written to disk")
	told := f.Bool("version", false, "print the version, and exit")
	accept(f, etcdFlags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *told {
			_, err := fmt.Fprintf(stdout, "etcd Version: %s\nKapok: %s\n", etcdVersion, version())
			return err
		}
		return e.run(c.Context(), stderr)
	}
	return runForeign(c, args, stdout, stderr)
}

// runForeign runs a program under the name and with the flags of another one. It prints unknown
// flags and ignores them.
func runForeign(c *cobra.Command, args []string, stdout, stderr io.Writer) int {
	known, unknown := sift(c.Flags(), args)
	if len(unknown) > 0 {
		fmt.Fprintf(stderr, "%s: ignoring flags that Kapok does not know: %s\n", c.Name(), strings.Join(unknown, " "))
	}
	c.SetArgs(known)
	c.SetOut(stdout)
	c.SetErr(stderr)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	ctx, cancel := attached(ctx)
	defer cancel()
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", c.Name(), err)
		return exitFailure
	}
	return 0
}

func (e *etcd) run(ctx context.Context, stderr io.Writer) error {
	dir, err := filepath.Abs(e.dataDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	e.dataDir = dir
	server := &http.Server{Handler: e.handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	for _, u := range strings.Split(e.urls, ",") {
		listener, err := listenURL(u)
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "etcd: Kapok listens on %s, for its kube-apiserver; the state is in %s\n", listener.Addr(), dir)
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	if !orphaned(ctx) {
		return server.Close()
	}
	// A kube-apiserver that writes to the directory is also stopping, and disconnects when it has
	// stopped.
	patience, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return errors.Join(errOrphan, server.Shutdown(patience), removeScratch(dir))
}

func listenURL(text string) (net.Listener, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("--listen-client-urls: %q is not a URL like http://127.0.0.1:2379", text)
	}
	if u.Scheme != "http" {
		return nil, fmt.Errorf("--listen-client-urls: %s: only http is supported", text)
	}
	return net.Listen("tcp", u.Host)
}

func (e *etcd) handler() http.Handler {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, text)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/health", answer(`{"health":"true","reason":""}`))
	mux.Handle("/livez", answer("ok\n"))
	mux.Handle("/readyz", answer("ok\n"))
	mux.Handle("/version", answer(`{"etcdserver":"`+etcdVersion+`","etcdcluster":"`+etcdVersion[:3]+`.0","storage":"`+etcdVersion[:3]+`.0"}`))
	mux.HandleFunc("GET "+tenancyPath, e.lend)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this is Kapok's etcd, which only works with Kapok's kube-apiserver: use a real etcd with any other", http.StatusNotFound)
	})
	return mux
}

// lend gives the directory to one kube-apiserver, as long as it holds the line.
func (e *etcd) lend(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	held := e.held
	e.held = true
	e.mu.Unlock()
	if held {
		http.Error(w, "another kube-apiserver uses this etcd", http.StatusConflict)
		return
	}
	defer func() {
		e.mu.Lock()
		e.held = false
		e.mu.Unlock()
	}()
	if json.NewEncoder(w).Encode(tenancy{DataDir: filepath.Join(e.dataDir, "kapok"), NoFsync: e.noFsync}) == nil && http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}

// rent requests the directory from an etcd, and returns a function that gives it back; nil if it is
// a real etcd, which stores objects itself. It waits for an etcd that does not listen yet. The
// directory remains in use beyond the end of ctx.
func rent(ctx context.Context, at string) (_ *tenancy, giveBack func(), err error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 10 * time.Second
	client := &http.Client{Transport: transport}
	begun := time.Now()
	for {
		t, giveBack, err := ask(ctx, client, strings.TrimSuffix(at, "/")+tenancyPath)
		patience := time.Duration(0)
		if errors.Is(err, errHeld) {
			patience = 10 * time.Second // for the last one to be gone
			err = fmt.Errorf("the etcd that Kapok provides at %s is already used by another kube-apiserver: start a separate one for each, or use an etcd of the etcd project for all of them", at)
		} else if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			patience = 20 * time.Second
		}
		if err == nil {
			return t, giveBack, nil
		}
		if ctx.Err() != nil || time.Since(begun) >= patience {
			transport.CloseIdleConnections()
			return nil, nil, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

var errHeld = errors.New("held by another kube-apiserver")

// ask sends one request, which ends with ctx.
func ask(ctx context.Context, client *http.Client, at string) (_ *tenancy, giveBack func(), err error) {
	lease, cancel := context.WithCancel(context.WithoutCancel(ctx))
	asking := context.AfterFunc(ctx, cancel)
	defer func() {
		if giveBack == nil {
			asking()
			cancel()
		}
	}()
	r, err := http.NewRequestWithContext(lease, http.MethodGet, at, nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: %w", err)
	}
	if answer.StatusCode == http.StatusOK && answer.Header.Get("Content-Type") != "" {
		t := &tenancy{}
		if json.NewDecoder(answer.Body).Decode(t) == nil && t.DataDir != "" {
			if !asking() {
				answer.Body.Close()
				return nil, nil, ctx.Err()
			}
			return t, func() { cancel(); answer.Body.Close() }, nil
		}
	}
	answer.Body.Close()
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case answer.StatusCode == http.StatusConflict:
		return nil, nil, errHeld
	}
	return nil, nil, nil
}
