// Package check validates manifests on a server that runs in memory for that purpose: what it says
// of them is what any server of Kapok says. It calls nothing outside of the process: no webhook
// takes effect. The server ends with Run.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Finding is the answer to an object that the server rejects.
type Finding struct {
	File       string `json:"file"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Message    string `json:"message"`
	// Causes are the fields in question, if the server names them.
	Causes []metav1.StatusCause `json:"causes,omitempty"`
}

// String returns the finding as one line, unless its message has more.
func (f Finding) String() string {
	if f.Kind == "" {
		return f.File + ": " + f.Message
	}
	return fmt.Sprintf("%s: %s %s: %s", f.File, f.Kind, f.Name, f.Message)
}

// Options configure Run.
type Options struct {
	// Files are files, directories, and "-" for the standard input.
	Files []string
	Stdin io.Reader
	// IgnoreMissingKinds leaves out objects of kinds that neither the server nor the manifests define.
	IgnoreMissingKinds bool
}

// Run validates the objects in files: first namespaces and definitions, then all others in their
// order. Namespaces that are not among them exist. It returns the number of objects. The error is
// one that makes it impossible to go on, such as a file that does not exist.
func Run(ctx context.Context, o Options) (findings []Finding, n int, err error) {
	var all []object
	for _, path := range o.Files {
		found, unreadable, err := read(path, o.Stdin)
		if err != nil {
			return nil, 0, err
		}
		all, findings = append(all, found...), append(findings, unreadable...)
	}
	slices.SortStableFunc(all, func(a, b object) int { return order(a) - order(b) })
	server, err := kapok.Start(ctx, kapok.Options{Webhooks: kapok.WebhookOptions{Dial: alone}, Aggregation: kapok.AggregationOptions{Dial: alone}})
	if err != nil {
		return nil, 0, fmt.Errorf("start a server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	c, err := client.NewWithWatch(server.Config(), client.Options{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return nil, 0, fmt.Errorf("make a client of the server: %w", err)
	}
	k := &checker{client: c, created: map[string]bool{}}
	for _, object := range all {
		err := k.check(ctx, object)
		switch {
		case ctx.Err() != nil:
			return nil, 0, context.Cause(ctx)
		case err == nil:
			n++
		case o.IgnoreMissingKinds && meta.IsNoMatchError(err):
		default:
			n++
			findings = append(findings, object.finding(err))
		}
	}
	return findings, n, nil
}

// alone refuses to connect to anything.
func alone(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("kapok check calls nothing outside of it")
}

// An object is one of a file.
type object struct {
	file string
	*unstructured.Unstructured
}

func (o object) finding(err error) Finding {
	f := Finding{File: o.file, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), Message: err.Error()}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		f.Causes = status.Status().Details.Causes
	}
	return f
}

// order puts first what others need.
func order(o object) int {
	switch o.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	}
	return 2
}

// A checker creates objects.
type checker struct {
	client  client.WithWatch
	created map[string]bool // by kind, namespace and name
}

// check creates an object, and what it needs: its namespace. As with kubectl, that is default if it
// has none.
func (k *checker) check(ctx context.Context, o object) error {
	if err := checkNames(o.Object); err != nil {
		return err
	}
	switch namespaced, err := k.client.IsObjectNamespaced(o.Unstructured); {
	case err != nil: // creating it says why
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace("default")
	}
	switch o.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService":
		return k.create(ctx, o, client.DryRunAll) // it must not take effect
	case "CustomResourceDefinition":
		if _, converts, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "conversion"); converts {
			if err := k.create(ctx, o, client.DryRunAll); err != nil {
				return err
			}
			unstructured.RemoveNestedField(o.Object, "spec", "conversion")
		}
		if err := k.create(ctx, o); err != nil {
			return err
		}
		return awaitServed(ctx, k.client, o.GetName())
	}
	return k.create(ctx, o)
}

func (k *checker) create(ctx context.Context, o object, opts ...client.CreateOption) error {
	name := strings.Join([]string{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
	err := k.client.Create(ctx, o.DeepCopy(), opts...)
	if apierrors.IsNotFound(err) && o.GetNamespace() != "" {
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		namespace.SetName(o.GetNamespace())
		if made := k.client.Create(ctx, namespace); made != nil {
			return err
		}
		err = k.client.Create(ctx, o.DeepCopy(), opts...)
	}
	if apierrors.IsAlreadyExists(err) && !k.created[name] { // every server has it, such as the namespace default
		err = k.client.Patch(ctx, o.DeepCopy(), client.Apply, client.FieldOwner("kapok-check"), client.ForceOwnership, client.DryRunAll)
	}
	if err == nil {
		k.created[name] = true
	}
	return err
}

// checkNames returns an error for a name that is no string: YAML takes n, on and 1 for other types.
func checkNames(o map[string]any) error {
	metadata, _ := o["metadata"].(map[string]any)
	for _, field := range []string{"name", "namespace", "generateName"} {
		if value, ok := metadata[field]; ok && value != nil {
			if _, isString := value.(string); !isString {
				return fmt.Errorf("metadata.%s is %v, which YAML does not take for a string: put it in quotes", field, value)
			}
		}
	}
	return nil
}

// awaitServed waits until the kind of a definition is served, or never will be.
func awaitServed(ctx context.Context, c client.WithWatch, name string) error {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList"}}
	events, err := c.Watch(ctx, list, client.MatchingFields{"metadata.name": name})
	if err != nil {
		return fmt.Errorf("wait until the kind is served: %w", err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("wait until the kind is served: %w", apierrors.FromObject(event.Object))
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		if err != nil {
			continue // none yet
		}
		for _, entry := range conditions {
			switch condition, _ := entry.(map[string]any); {
			case condition["type"] == "Established" && condition["status"] == "True":
				return nil
			case condition["status"] == "False" && condition["type"] == "NamesAccepted", condition["status"] == "True" && condition["type"] == "NonStructuralSchema":
				return fmt.Errorf("%v", condition["message"])
			}
		}
	}
	return fmt.Errorf("wait until the kind is served: %w", context.Cause(ctx))
}

// read returns the objects of a file, of the files below a directory with the extensions yaml, yml
// and json, or of the standard input, and a finding for what cannot be decoded.
func read(path string, stdin io.Reader) (objects []object, findings []Finding, err error) {
	add := func(name string, data []byte) {
		found, errs := decode(name, data)
		objects = append(objects, found...)
		for _, err := range errs {
			findings = append(findings, Finding{File: name, Message: err.Error()})
		}
	}
	if path == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, nil, fmt.Errorf("read the standard input: %w", err)
		}
		add("standard input", data)
		return objects, findings, nil
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil, err
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || name != root && (!slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || strings.HasPrefix(entry.Name(), "kustomization.")) {
			return nil
		}
		shown := filepath.Join(path, strings.TrimPrefix(name, root))
		data, err := os.ReadFile(name)
		if err != nil {
			findings = append(findings, Finding{File: shown, Message: err.Error()})
			return nil
		}
		add(shown, data)
		return nil
	})
	return objects, findings, err
}
