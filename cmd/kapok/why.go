package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// why is the command line of kapok why.
type why struct {
	instance   instanceFlag
	kubeconfig string
	context    string
	namespace  string
}

func newWhy() *cobra.Command {
	w := &why{}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain the state of an object",
		Long: `Explain the state of an object: the client that changed it last, the change that
this probably followed, its events and conditions, and what it waits for. The same
follows for its owners, and for its dependents that are not ready.

The explanation is derived from owner references, managed fields, conditions and
events, and from the metrics of the controllers that run in the server. It works with
any Kubernetes API server.`,
		Example: `  kapok why deployment/web
  kapok why pod/web-5fc9f4bf66-4qm4d -n shop`,
		Args: func(_ *cobra.Command, args []string) error {
			_, _, err := kindAndName(args)
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := notEmpty(c, serverFlags...); err != nil {
				return err
			}
			return failed(w.run(c.Context(), args[0], c.OutOrStdout()))
		},
	}
	w.flags(c)
	return c
}

// serverFlags are the flags that say which server and which namespace a command is about.
var serverFlags = []string{"instance", "kubeconfig", "context", "namespace"}

func (w *why) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig of the server (default $KUBECONFIG, or that of the instance)")
	w.instance.flag(c)
	exclude(c, "instance", "kubeconfig")
	f.StringVar(&w.context, "context", "", "context of the kubeconfig (default its current one)")
	f.StringVarP(&w.namespace, "namespace", "n", "", "namespace of the object (default that of the context)")
}

// notEmpty rejects flags that are set to nothing, such as to a variable of a shell that has no
// value.
func notEmpty(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := c.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	return nil
}

// kindAndName returns the parts of the one argument KIND/NAME.
func kindAndName(args []string) (kind, name string, err error) {
	if len(args) != 1 {
		return "", "", fmt.Errorf("want one KIND/NAME, got %q", args)
	}
	kind, name, ok := strings.Cut(args[0], "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q is not KIND/NAME, like deployment/web", args[0])
	}
	return kind, name, nil
}

// config returns a configuration for clients of the server, and the namespace.
func (w *why) config() (*rest.Config, string, error) {
	file, err := w.instance.kubeconfig(w.kubeconfig)
	if err != nil {
		return nil, "", err
	}
	if file == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if file, err = defaultKubeconfig(); err != nil {
			return nil, "", fmt.Errorf("no default for --kubeconfig: %w", err)
		}
	}
	config, namespace, err := configAndNamespaceOf(file, w.context)
	if w.namespace != "" {
		namespace = w.namespace
	}
	return config, namespace, err
}

func (w *why) run(ctx context.Context, target string, stdout io.Writer) error {
	config, namespace, err := w.config()
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	kind, name, _ := strings.Cut(target, "/")
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	gvk, namespaced, err := kindNamed(c, resources, kind)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Name: name}
	if namespaced {
		key.Namespace = namespace
	}
	x := explanation{client: c, now: time.Now(), out: stdout, config: config}
	return x.explain(ctx, gvk, key)
}

// kindNamed returns the kind with a name that kubectl accepts: of a resource, in singular, plural
// or short, with or without its group, or a kind.
func kindNamed(c client.Client, resources discovery.DiscoveryInterface, name string) (gvk schema.GroupVersionKind, namespaced bool, err error) {
	mapper := restmapper.NewShortcutExpander(c.RESTMapper(), resources, func(string) {})
	resource, group, _ := strings.Cut(strings.ToLower(name), ".")
	gvk, err = mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
	if meta.IsNoMatchError(err) {
		return gvk, false, fmt.Errorf("the server has no kind %q", name)
	}
	if err != nil {
		return gvk, false, err
	}
	namespaced, err = c.IsObjectNamespaced(objectOf(gvk))
	return gvk, namespaced, err
}

func objectOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o
}
