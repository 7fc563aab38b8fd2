package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kapok-dev/kapok/console"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// look is the command line of kapok console.
type look struct {
	kubeconfig string
	context    string
	listen     string
	open       bool
}

func newConsole() *cobra.Command {
	l := &look{}
	c := &cobra.Command{
		Use:   "console",
		Short: "Show the objects of any cluster in the browser",
		Long: `Show the objects of any cluster in the browser.

It serves the console at a loopback address until it is interrupted, and passes the
requests of the page on to the cluster of the kubeconfig, with its credentials. The
page needs the link that is printed: it works once and for ten minutes.

By default the kubeconfig is that of $KUBECONFIG, of kapok up in its default data
directory while that runs, or of kubectl.`,
		Example: `  kapok console
  kapok console --kubeconfig ./kubeconfig --context staging --open=false`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, release := interruptible(c.Context())
			defer release()
			return failed(l.run(ctx, c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	f := c.Flags()
	f.StringVar(&l.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: see above)")
	f.StringVar(&l.context, "context", "", "context of the kubeconfig (default its current one)")
	f.StringVar(&l.listen, "listen", "127.0.0.1:0", "loopback address of the page, HOST:PORT; port 0 picks a free one")
	f.BoolVar(&l.open, "open", true, "open the page in the browser")
	return c
}

func (l *look) run(ctx context.Context, stdout, stderr io.Writer) error {
	config, err := l.config()
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(l.listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen is %q: must be a loopback address with a port, like 127.0.0.1:8001", l.listen)
	}
	api, err := passOn(config, log.New(stderr, "", 0))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", l.listen)
	if err != nil {
		return err
	}
	page := console.New(console.Options{API: api, Closed: true})
	link, err := page.Link("http://"+listener.Addr().String(), "")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "The console of %s:\n\n  %s\n\nInterrupt to stop.\n", config.Host, link)
	if l.open {
		openBrowser(link) // the link is printed in any case
	}
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		err := server.Close() // watches never end by themselves
		<-stopped
		return err
	}
}

// config returns the configuration of the cluster.
func (l *look) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = l.kubeconfig
	if l.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if dir, err := defaultDataDir(); err == nil {
			if own := filepath.Join(dir, "kubeconfig"); isFile(own) {
				rules.ExplicitPath = own
			}
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: l.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster given: set --kubeconfig FILE or $KUBECONFIG, or start kapok up")
	}
	return config, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// passOn returns a handler that passes requests on to a cluster, with the credentials of its
// configuration and none of the browser's.
func passOn(config *rest.Config, errs *log.Logger) (http.Handler, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	target := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
				r.Out.Header.Del(name)
			}
		},
		FlushInterval: -1, // events of watches
		ErrorLog:      errs,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				errs.Printf("%s: %v", r.URL.Path, err)
			}
			status := apierrors.NewServiceUnavailable("the cluster cannot be reached: " + err.Error())
			console.Refuse(w, status)
		},
	}, nil
}

// openBrowser starts the browser, and does not wait for it.
func openBrowser(address string) {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	c := exec.Command(name, args...)
	if c.Start() == nil {
		go func() { _ = c.Wait() }() // its result is of no interest
	}
}
