// Package check validates manifests on a server that runs in memory for that purpose: what it says of them is
// what any server of Kapok says. The server ends with Run.
package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
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

// Run validates the objects in files and, for "-", in the standard input: first namespaces and definitions, then all others
// in their order. Namespaces that are not among them exist. It returns the number of objects. The error is one
// that makes it impossible to go on, such as a file that does not exist.
func Run(ctx context.Context, paths []string, stdin io.Reader) (findings []Finding, n int, err error) {
	var all []object
	for _, path := range paths {
		found, unreadable, err := read(path, stdin)
		if err != nil {
			return nil, 0, err
		}
		all, findings = append(all, found...), append(findings, unreadable...)
	}
	slices.SortStableFunc(all, func(a, b object) int { return order(a) - order(b) })
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		return nil, 0, fmt.Errorf("start a server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	c, err := client.NewWithWatch(server.Config(), client.Options{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return nil, 0, fmt.Errorf("make a client of the server: %w", err)
	}
	for _, o := range all {
		if err := create(ctx, c, o); err != nil {
			if ctx.Err() != nil {
				return nil, 0, context.Cause(ctx)
			}
			findings = append(findings, o.finding(err))
		}
	}
	return findings, len(all), nil
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

// create creates an object, and what it needs: its namespace. As with kubectl, that is default if it has none.
func create(ctx context.Context, c client.WithWatch, o object) error {
	if o.GetNamespace() == "" {
		if namespaced, err := c.IsObjectNamespaced(o.Unstructured); err == nil && namespaced {
			o.SetNamespace("default")
		}
	}
	err := c.Create(ctx, o.Unstructured)
	if apierrors.IsNotFound(err) && o.GetNamespace() != "" {
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		namespace.SetName(o.GetNamespace())
		if made := c.Create(ctx, namespace); made != nil {
			return err
		}
		err = c.Create(ctx, o.Unstructured)
	}
	if err != nil || o.GetKind() != "CustomResourceDefinition" {
		return err
	}
	return awaitServed(ctx, c, o.GetName())
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

// read returns the objects of a file, of the files below a directory with the extensions yaml, yml and json, or of the
// standard input, and a finding for what cannot be decoded.
func read(path string, stdin io.Reader) (objects []object, findings []Finding, err error) {
	add := func(name string, data []byte) {
		found, err := decode(name, data)
		objects = append(objects, found...)
		if err != nil {
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
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir(), name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)),
			name != path && strings.HasPrefix(entry.Name(), "kustomization."):
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		add(name, data)
		return nil
	})
	return objects, findings, err
}

// decode returns the objects of a text, also those in lists.
func decode(file string, data []byte) ([]object, error) {
	var all []object
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := documents.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		case len(u.Object) == 0:
			continue
		case u.GetKind() == "" || u.GetAPIVersion() == "":
			return all, errors.New("an object has no kind or no apiVersion: this is no manifest")
		case u.IsList():
			err := u.EachListItem(func(item runtime.Object) error {
				all = append(all, object{file, item.(*unstructured.Unstructured)})
				return nil
			})
			if err != nil {
				return all, err
			}
			continue
		}
		all = append(all, object{file, u})
	}
}
