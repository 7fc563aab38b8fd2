package kapoktest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// update is the variable in the environment that has golden files written.
const update = "KAPOKTEST_UPDATE"

// Golden compares all objects of some kinds, examples of which are given, with a file: YAML, ordered by kind, namespace and name,
// without what differs from run to run (uids, resourceVersions, managed fields, times of creation). With KAPOKTEST_UPDATE=1 in the environment it
// writes the file.
func (e *Env) Golden(file string, kinds ...client.Object) {
	e.t.Helper()
	got, err := e.dump(kinds)
	if err != nil {
		e.t.Fatalf("golden file %s: %v", file, err)
	}
	if os.Getenv(update) != "" {
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, got, 0o644)
		}
		if err != nil {
			e.t.Fatalf("golden file: %v", err)
		}
		return
	}
	want, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.t.Fatalf("golden file: %v (%s=1 writes it)", err, update)
	case err != nil:
		e.t.Fatalf("golden file: %v", err)
	case !bytes.Equal(got, want):
		e.t.Errorf("what is there is not what %s says (%s=1 writes it):\n%s", file, update,
			lineDiff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")))
	}
}

func (e *Env) dump(kinds []client.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, kind := range kinds {
		gvk, err := client.GVKForObject(kind, e.scheme)
		if err != nil {
			return nil, err
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := e.client.List(e.t.Context(), list); err != nil {
			return nil, err
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
			return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
		})
		for _, u := range list.Items {
			scrub(&u)
			text, err := yaml.Marshal(u.Object)
			if err != nil {
				return nil, err
			}
			out.WriteString("---\n")
			out.Write(text)
		}
	}
	return out.Bytes(), nil
}

// scrub takes out what differs from run to run.
func scrub(u *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	owners, _, _ := unstructured.NestedSlice(u.Object, "metadata", "ownerReferences")
	for _, o := range owners {
		if owner, ok := o.(map[string]any); ok {
			delete(owner, "uid")
		}
	}
	if len(owners) > 0 {
		_ = unstructured.SetNestedSlice(u.Object, owners, "metadata", "ownerReferences") // it was one
	}
}
