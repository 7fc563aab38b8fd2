package dev

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/internal/pki"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options configure Run.
type Options struct {
	// Project is the directory of the project, which has a file PROJECT and config/default.
	Project string
	// Dir is a directory for the program and its credentials.
	Dir string
	// Main is the package of the operator. Default: ./cmd.
	Main string
	// Args are the arguments of the operator. Default: those that the main of a kubebuilder project needs to run on this
	// machine: no metrics, no probes, no leader election, and where webhooks are served.
	Args []string
	// Admin runs the operator as admin, in place of the service account of its Deployment.
	Admin bool
	// Samples tells to apply the samples in config/samples.
	Samples bool
	// DebugPort is the port on which the debugger dlv serves. 0 runs without it.
	DebugPort int
	// Generate and Kustomize are command lines: kapok generate, which prints the files that it has written, and kubectl
	// kustomize, to which the directory is added.
	Generate, Kustomize []string
	// Config is for the server's admin, in this process, and Kubeconfig for a client in another one.
	Config     *rest.Config
	Kubeconfig []byte
	// Hurry is closed when the operator is not to have time to end. nil gives it some seconds.
	Hurry <-chan struct{}
	// Out gets all output.
	Out io.Writer
	// Interval is the time between two looks for changes. Default: 300 ms.
	Interval time.Duration
}

type dev struct {
	Options
	lines       *output
	client      client.WithWatch
	manifests   set
	samples     set
	versions    map[string]string // resourceVersions that apply has answered, by key
	webhookPort int
	webhookCA   string // base64 PEM
	operator    *operator
	sum         string          // of the program that runs
	env         []string        // with which it was started
	generated   map[string]bool // the files that the last step has written
}

// Run runs the operator of a project until ctx is done. It returns an error only if it cannot begin.
func Run(ctx context.Context, o Options) error {
	d := &dev{Options: o, lines: &output{to: o.Out}, manifests: set{}, samples: set{}, versions: map[string]string{}}
	if err := d.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan struct{})
	go func() { defer close(events); d.printEvents(ctx) }()
	defer func() {
		cancel()
		d.operator.end(d.Hurry)
		<-events
	}()
	return d.loop(ctx)
}

// CheckProject returns an error unless a directory is the root of a project.
func CheckProject(dir string) error {
	for _, name := range []string{"go.mod", "PROJECT", "config/default/kustomization.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("this directory is not the root of a project: it has no %s. kapok init creates a project", name)
		}
	}
	return nil
}

// begin checks the options, and makes what stays: the client and the credentials of webhooks.
func (d *dev) begin() error {
	if d.Main == "" {
		d.Main = "./cmd"
	}
	if d.Interval == 0 {
		d.Interval = 300 * time.Millisecond
	}
	if err := CheckProject(d.Project); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return err
	}
	var err error
	if d.client, err = client.NewWithWatch(d.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return fmt.Errorf("make a client of the server: %w", err)
	}
	if err := d.makeWebhookCredentials(); err != nil {
		return err
	}
	if d.Args == nil {
		d.Args = []string{
			"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false",
			"--webhook-cert-path=" + filepath.Join(d.Dir, "webhook"), fmt.Sprintf("--webhook-port=%d", d.webhookPort),
		}
	}
	return nil
}

// makeWebhookCredentials finds a port for the operator's webhooks, and writes a certificate for it.
func (d *dev) makeWebhookCredentials() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a port for webhooks: %w", err)
	}
	d.webhookPort = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	credentials, err := pki.Open("", nil, []string{"127.0.0.1", "localhost"}, time.Now())
	if err != nil {
		return fmt.Errorf("make a certificate for webhooks: %w", err)
	}
	d.webhookCA = base64.StdEncoding.EncodeToString(credentials.RootCA())
	cert, key, err := encodeCertificate(credentials.ServingCertificate())
	if err != nil {
		return fmt.Errorf("make a certificate for webhooks: %w", err)
	}
	dir := filepath.Join(d.Dir, "webhook")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(pki.WriteFile(filepath.Join(dir, "tls.crt"), cert), pki.WriteFile(filepath.Join(dir, "tls.key"), key))
}

func encodeCertificate(c tls.Certificate) (cert, key []byte, err error) {
	var chain bytes.Buffer
	for _, der := range c.Certificate {
		if err := pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, nil, err
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	return chain.Bytes(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// loop does all steps, and then those that changes need.
func (d *dev) loop(ctx context.Context) error {
	todo := changes{sorts: map[sort]bool{source: true, config: true, samples: true}}
	seen, err := look(d.Project)
	if err != nil {
		return fmt.Errorf("look for changes: %w", err)
	}
	var failed bool
	ticks := time.NewTicker(d.Interval)
	defer ticks.Stop()
	for {
		if len(todo.sorts) > 0 {
			before := seen
			err := d.step(ctx, todo.sorts)
			failed = err != nil
			if err != nil && ctx.Err() == nil {
				d.lines.printf("error", "%v", err)
			}
			// What this step has generated is no change, but what the user has changed meanwhile is.
			if seen, err = look(d.Project); err != nil {
				return fmt.Errorf("look for changes: %w", err)
			}
			todo = before.changesTo(seen).without(d.generated)
			if len(todo.sorts) > 0 {
				continue
			}
		}
		var ended <-chan struct{}
		if d.operator != nil && !d.operator.reported {
			ended = d.operator.ended
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			d.operator.reported = true
			d.lines.printf("operator", "has ended: %s. It starts again after the next change.", firstOf(message(d.operator.err), "exit status 0"))
		case <-ticks.C:
			now, err := look(d.Project)
			if err != nil {
				return fmt.Errorf("look for changes: %w", err)
			}
			if todo = seen.changesTo(now); len(todo.sorts) > 0 {
				d.lines.printf("change", "%s", todo)
				if failed {
					todo.sorts = map[sort]bool{source: true, config: true, samples: true}
				}
			}
			seen = now
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// step does what changes of files need.
func (d *dev) step(ctx context.Context, of map[sort]bool) error {
	if of[source] {
		if err := d.generate(ctx); err != nil {
			return err
		}
	}
	if of[source] || of[config] {
		m, err := d.render(ctx)
		if err != nil {
			return err
		}
		if err := d.apply(ctx, d.manifests, m.objects, of[config]); err != nil {
			return err
		}
		if err := d.restart(ctx, m); err != nil {
			return err
		}
	}
	if d.Samples {
		return d.applySamples(ctx, of[samples])
	}
	return nil
}

// generate runs kapok generate.
func (d *dev) generate(ctx context.Context) error {
	out, err := d.output(ctx, d.Generate)
	if err != nil {
		return err
	}
	d.generated = map[string]bool{}
	for name := range strings.Lines(string(out)) {
		name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
		d.generated[filepath.ToSlash(name)] = true
		d.lines.printf("generate", "%s", name)
	}
	return nil
}

// render returns the manifests of the project.
func (d *dev) render(ctx context.Context) (*manifests, error) {
	out, err := d.output(ctx, append(slices.Clone(d.Kustomize), "config/default"))
	if err != nil {
		return nil, err
	}
	return d.read(out)
}

// output runs a command line in the project, and returns what it prints.
func (d *dev) output(ctx context.Context, args []string) ([]byte, error) {
	var stderr bytes.Buffer
	c := d.command(ctx, args[0], args[1:]...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		text := firstOf(strings.TrimSpace(stderr.String()), err.Error())
		return nil, fmt.Errorf("%s:\n%s", strings.Join(append([]string{filepath.Base(args[0])}, args[1:]...), " "), strings.TrimPrefix(text, "kapok: "))
	}
	return out, nil
}

// restart builds the operator, and starts it if the program or its environment has changed.
func (d *dev) restart(ctx context.Context, m *manifests) error {
	begin := time.Now()
	program, sum, err := d.build(ctx)
	if err != nil {
		return err
	}
	if d.operator.running() && sum == d.sum && slices.Equal(d.env, m.env) {
		return os.Remove(program + ".new")
	}
	d.lines.printf("build", "%s in %.1f s", d.Main, time.Since(begin).Seconds())
	kubeconfig, err := d.kubeconfigFor(ctx, m)
	if err != nil {
		return err
	}
	d.operator.end(d.Hurry)
	if d.operator, err = d.start(ctx, program, append([]string{"KUBECONFIG=" + kubeconfig}, m.env...)); err != nil {
		return err
	}
	d.sum, d.env = sum, m.env
	return nil
}

// kubeconfigFor writes the kubeconfig of the operator: with a token of its service account, so that rules
// that it lacks show.
func (d *dev) kubeconfigFor(ctx context.Context, m *manifests) (string, error) {
	config, err := clientcmd.Load(d.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read the server's kubeconfig: %w", err)
	}
	if !d.Admin && m.account != "" {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.account}}
		day := int64(24 * 60 * 60)
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
		if err := d.client.SubResource("token").Create(ctx, account, request); err != nil {
			return "", fmt.Errorf("get a token of the service account %s/%s: %w", m.namespace, m.account, err)
		}
		for _, c := range config.Contexts {
			config.AuthInfos[c.AuthInfo] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
			c.Namespace = m.namespace
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write the operator's kubeconfig: %w", err)
	}
	path := filepath.Join(d.Dir, "operator.kubeconfig")
	return path, pki.WriteFile(path, data)
}

// settling is the time that the operator has to serve the webhooks that samples need.
const settling = 20 * time.Second

// applySamples applies the samples that have changed, or all. While the operator starts, its webhooks cannot
// be called: then it tries again.
func (d *dev) applySamples(ctx context.Context, all bool) error {
	objects, err := d.readSamples()
	if err != nil {
		d.lines.printf("error", "%v", err) // of some: the others are applied
	}
	end := time.Now().Add(settling)
	for {
		failed := d.apply(ctx, d.samples, objects, all)
		if failed == nil || !isWebhookAway(failed) || !d.operator.running() || time.Now().After(end) {
			return failed
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.operator.ended:
			return failed
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isWebhookAway reports whether a webhook, for admission or conversion, could not be called.
func isWebhookAway(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed calling webhook") || strings.Contains(text, "conversion webhook for")
}

// readSamples returns the objects in config/samples, and an error for files that cannot be read.
func (d *dev) readSamples() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	var errs []error
	dir := filepath.Join(d.Project, filepath.FromSlash(samplesDir))
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) || strings.HasPrefix(entry.Name(), "kustomization."):
			return nil
		}
		found, err := readObjects(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", entry.Name(), err))
		}
		objects = append(objects, found...)
		return nil
	})
	return objects, errors.Join(append(errs, err)...)
}

// readObjects returns the objects of a file, also those in lists.
func readObjects(path string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return objects, err
		}
		switch {
		case len(u.Object) == 0:
			continue
		case u.IsList():
			err := u.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				return objects, err
			}
			continue
		case u.GetName() == "":
			return objects, fmt.Errorf("a %s has no metadata.name", firstOf(u.GetKind(), "object"))
		}
		if spec, ok := u.Object["spec"]; ok && spec == nil { // a new sample
			u.Object["spec"] = map[string]any{}
		}
		dropNulls(u.Object)
		objects = append(objects, u)
	}
}

// dropNulls removes fields that are null, as the server does with those of an object that is created. In
// server-side apply they would be errors.
func dropNulls(object map[string]any) {
	for name, value := range object {
		switch v := value.(type) {
		case nil:
			delete(object, name)
		case map[string]any:
			dropNulls(v)
		}
	}
}
