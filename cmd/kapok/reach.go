package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/encryption"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// reach is the access of a command to a store: through the running server, or directly in the data
// directory of a stopped one.
type reach struct {
	instance   instanceFlag
	kubeconfig string
	dataDir    string
	encryption string
}

func (r *reach) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig of the running server, instead of an instance")
	f.StringVar(&r.dataDir, "data-dir", "", "data directory of a stopped server")
	f.StringVar(&r.encryption, "encryption-provider-config", "", "file with which the server of --data-dir encrypts its objects")
	r.instance.flag(c)
	exclude(c, "kubeconfig", "data-dir")
	exclude(c, "instance", "kubeconfig")
	exclude(c, "instance", "data-dir")
	exclude(c, "kubeconfig", "encryption-provider-config")
}

// check rejects invalid flags.
func (r *reach) check(c *cobra.Command) error {
	for _, name := range []string{"instance", "kubeconfig", "data-dir", "encryption-provider-config"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	if r.encryption != "" && r.dataDir == "" {
		return errors.New("--encryption-provider-config requires --data-dir: a running server uses its own configuration")
	}
	return nil
}

func defaultKubeconfig() (string, error) {
	dir, err := defaultDataDir()
	return filepath.Join(dir, "kubeconfig"), err
}

// server returns a client of the running server, and its address.
func (r *reach) server() (*http.Client, string, error) {
	file := r.kubeconfig
	if file == "" {
		i, err := r.instance.find()
		if err != nil {
			return nil, "", fmt.Errorf("%w; --data-dir reads the store of a stopped server", err)
		}
		if i != nil {
			file = i.Kubeconfig()
		}
	}
	if file == "" {
		var err error
		if file, err = defaultKubeconfig(); err != nil {
			return nil, "", fmt.Errorf("no default for --kubeconfig: %w", err)
		}
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("no server found: %s does not exist. Start a server with kapok up, "+
			"or set --kubeconfig for a running server or --data-dir for a stopped one", file)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("kubeconfig %s names no server: want the file that kapok up wrote", file)
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	config.DisableCompression = true // large responses are already compressed
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	return client, strings.TrimSuffix(config.Host, "/"), nil
}

// get requests one of Kapok's own paths from the running server. The caller closes the body.
func (r *reach) get(ctx context.Context, path string) (*http.Response, error) {
	client, address, err := r.server()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: is the server running?", err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // the reason, as far as it can be read
	var status metav1.Status
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s does not serve %s: it is not Kapok, or an older version", address, path)
	case json.Unmarshal(body, &status) == nil && status.Message != "":
		return nil, fmt.Errorf("%s returned: %s", address, status.Message)
	}
	return nil, fmt.Errorf("%s returned %s", address, answer.Status)
}

// options are those with which the journal of the stopped server opens, to be read
// only, until release is called.
func (r *reach) options(ctx context.Context) (opts pebble.Options, release func(), err error) {
	opts = pebble.Options{Dir: journalDir(r.dataDir), ReadOnly: true, Logger: slog.New(slog.DiscardHandler)}
	if _, err := os.Stat(r.dataDir); errors.Is(err, fs.ErrNotExist) {
		return opts, nil, fmt.Errorf("%s does not exist: want the data directory of kapok up", r.dataDir)
	}
	if _, err := os.Stat(opts.Dir); errors.Is(err, fs.ErrNotExist) {
		return opts, nil, fmt.Errorf("%s contains no store: want the data directory of kapok up", r.dataDir)
	}
	if err := checkDirectory("data directory", r.dataDir); err != nil {
		return opts, nil, err
	}
	opts.Sealer, release, err = sealer(ctx, r.encryption)
	return opts, release, err
}

// open opens the store of a stopped server for as long as use runs. It shows the progress of
// reading the store.
func (r *reach) open(ctx context.Context, stderr io.Writer, use func(*state.State) error) (err error) {
	opts, release, err := r.options(ctx)
	if err != nil {
		return err
	}
	defer release()
	shown := linesOf(stderr, "Reading the store", objects)
	opts.Progress = shown.report
	j, err := pebble.Open(opts)
	if err != nil {
		return r.explain(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	st, err := state.Open(ctx, j, state.Options{})
	shown.end()
	if err != nil {
		return err
	}
	return use(st)
}

// explain adds to the error for a locked store how to reach its server.
func (r *reach) explain(err error) error {
	if !errors.Is(err, journal.ErrLocked) {
		return err
	}
	kubeconfig := filepath.Join(r.dataDir, "kubeconfig")
	if _, statErr := os.Stat(kubeconfig); statErr != nil {
		kubeconfig = "FILE, the file that its kapok up wrote,"
	}
	return fmt.Errorf("kapok is running on data directory %s: use --kubeconfig %s instead of --data-dir, or stop the server", r.dataDir, kubeconfig)
}

// journalDir returns the directory of the journal in a data directory of kapok up.
func journalDir(dataDir string) string { return filepath.Join(dataDir, "journal") }

// sealer loads the configuration of encryption at rest, which is in use until release is called. It
// returns nil if file is empty.
func sealer(ctx context.Context, file string) (_ journal.Sealer, release func(), err error) {
	if file == "" {
		return nil, func() {}, nil
	}
	config, err := encryption.Load(ctx, file, kinds.Paths(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	return config, config.Close, nil
}

// interruptible returns a context that ends with the first signal, so that partial
// results can be removed. The second one ends the process.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	return ctx, restore
}
