package kapoktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const definitionKind = "CustomResourceDefinition"

// CRDs installs the CustomResourceDefinitions of files and directories. It reads the YAML and JSON
// files in a directory and in those below it, and ignores other objects and patches for kustomize.
// Start and Bubble continue once the kinds are served.
func CRDs(paths ...string) Option {
	return func(o *options) {
		if len(paths) == 0 {
			o.crds = append(o.crds, noPath)
		}
		for _, path := range paths {
			o.crds = append(o.crds, func() ([]*unstructured.Unstructured, error) { return definitionsAt(path) })
		}
	}
}

// CRDsOf is like CRDs, with the files of a file system such as an embed.FS.
func CRDsOf(files fs.FS) Option {
	return func(o *options) {
		o.crds = append(o.crds, func() ([]*unstructured.Unstructured, error) { return definitions(readFS(files, ".", "")) })
	}
}

// CRDsFromModule is like CRDs, with paths in a Go module on which the module of the test depends,
// as in CRDsFromModule("sigs.k8s.io/gateway-api", "config/crd/standard").
func CRDsFromModule(module string, paths ...string) Option {
	return func(o *options) {
		o.crds = append(o.crds, func() (all []*unstructured.Unstructured, err error) {
			dir, err := moduleDir(module)
			if err != nil {
				return nil, err
			}
			if len(paths) == 0 {
				return noPath()
			}
			for _, path := range paths {
				found, err := definitionsAt(filepath.Join(dir, filepath.FromSlash(path)))
				if err != nil {
					return nil, err
				}
				all = append(all, found...)
			}
			return all, nil
		})
	}
}

func noPath() ([]*unstructured.Unstructured, error) { return nil, errors.New("no path given") }

func moduleDir(module string) (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("module %s: the module of the test does not depend on it, or it is not downloaded: %s", module, strings.TrimSpace(stderr.String()))
	}
	return dir, nil
}

// Objects creates the objects of files and directories, in the order of the file names, after the
// CustomResourceDefinitions. Namespaces come first; missing ones are created. Objects without a
// namespace are in the namespace default, unless their kind is cluster-scoped. A field that the
// kind does not have is an error.
func Objects(paths ...string) Option {
	return func(o *options) {
		if len(paths) == 0 {
			o.objects = append(o.objects, noPath)
		}
		for _, path := range paths {
			o.objects = append(o.objects, func() ([]*unstructured.Unstructured, error) {
				objs, err := readPath(path)
				if err == nil && len(objs) == 0 {
					err = fmt.Errorf("%s: want at least one object, found none", path)
				}
				return objs, err
			})
		}
	}
}

// YAML is like Objects, but takes the objects from a string.
func YAML(text string) Option {
	return func(o *options) {
		o.objects = append(o.objects, func() ([]*unstructured.Unstructured, error) { return decode(strings.NewReader(text)) })
	}
}

// install creates the objects of the options.
func (e *Env) install(o options) {
	e.t.Helper()
	var crds, objects []*unstructured.Unstructured
	for _, load := range o.crds {
		found, err := load()
		if err == nil && len(found) == 0 {
			err = errors.New("want at least one CustomResourceDefinition, found none")
		}
		if err != nil {
			e.t.Fatalf("custom resources: %v", err)
		}
		crds = append(crds, found...)
	}
	for _, load := range o.objects {
		found, err := load()
		if err == nil && len(found) == 0 {
			err = errors.New("want at least one object, found none")
		}
		if err != nil {
			e.t.Fatalf("objects: %v", err)
		}
		objects = append(objects, found...)
	}
	if err := e.webhooks.convert(crds, o.scheme); err != nil {
		e.t.Fatalf("webhooks: %v", err)
	}
	for _, crd := range crds {
		if err := e.create(crd); err != nil {
			e.t.Fatalf("create %s: %v", e.describe(crd), err)
		}
	}
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	for _, crd := range crds {
		e.WaitFor(ctx, crd, func() bool { return isEstablished(crd) })
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	there := []string{metav1.NamespaceDefault}
	for _, obj := range objects {
		status := obj.Object["status"]
		err := e.place(obj)
		if ns := obj.GetNamespace(); err == nil && ns != "" && !slices.Contains(there, ns) {
			err = e.ensureNamespace(ns)
			there = append(there, ns)
		}
		if err == nil {
			err = e.client.Create(e.ctx, obj, client.FieldValidation(metav1.FieldValidationStrict))
		}
		if err != nil {
			e.t.Fatalf("create %s: %v", e.describe(obj), err)
		}
		if err := e.giveStatus(obj, status); err != nil {
			e.t.Fatalf("status of %s: %v", e.describe(obj), err)
		}
	}
}

// giveStatus writes the status of a created object. A kind without a status subresource returns
// NotFound, and its create has kept the status.
func (e *Env) giveStatus(obj *unstructured.Unstructured, status any) error {
	if status == nil || obj.GetKind() == definitionKind || obj.GetKind() == "Namespace" {
		return nil
	}
	obj.Object["status"] = status
	return client.IgnoreNotFound(e.client.Status().Update(e.ctx, obj))
}

func rank(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case definitionKind:
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

func definitions(objs []*unstructured.Unstructured, err error) ([]*unstructured.Unstructured, error) {
	return slices.DeleteFunc(objs, func(u *unstructured.Unstructured) bool { return u.GetKind() != definitionKind || isPatch(u) }), err
}

func definitionsAt(path string) ([]*unstructured.Unstructured, error) {
	objs, err := definitions(readPath(path))
	if err == nil && len(objs) == 0 {
		err = fmt.Errorf("%s: want at least one CustomResourceDefinition, found none", path)
	}
	return objs, err
}

// isPatch reports whether a CustomResourceDefinition is a patch for kustomize: it has no group,
// names and versions.
func isPatch(crd *unstructured.Unstructured) bool {
	spec, _, _ := unstructured.NestedMap(crd.Object, "spec")
	return spec["group"] == nil && spec["names"] == nil && spec["versions"] == nil
}

func readPath(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFS(os.DirFS(path), ".", path)
	}
	return readFS(os.DirFS(filepath.Dir(path)), filepath.Base(path), filepath.Dir(path))
}

// readFS reads a file or a directory of a file system. Errors name the path at.
func readFS(files fs.FS, root, at string) (all []*unstructured.Unstructured, err error) {
	err = fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name != root && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		objs, err := decode(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(at, filepath.FromSlash(name)), err)
		}
		all = append(all, objs...)
		return nil
	})
	return all, err
}

// decode reads documents of YAML or JSON, with an object or a list in each.
func decode(r io.Reader) (all []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(u.Object) == 0, u.GroupVersionKind().Group == "kustomize.config.k8s.io":
			continue
		case u.GetKind() == "" || u.GetAPIVersion() == "":
			if len(all) == 0 && u.GetName() == "" && u.GetKind() == "" && u.GetAPIVersion() == "" {
				continue // a file of something else, such as a kustomization
			}
			return nil, errors.New("an object has no apiVersion or no kind")
		case u.IsList():
			err := u.EachListItem(func(item runtime.Object) error {
				all = append(all, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				return nil, err
			}
		default:
			all = append(all, u)
		}
	}
}
