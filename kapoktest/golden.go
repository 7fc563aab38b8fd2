package kapoktest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// update is the variable in the environment that has golden files written.
const update = "KAPOKTEST_UPDATE"

// Golden compares all objects of the given kinds with a file. Name each kind by an object of its Go
// type, such as &corev1.Pod{}. The file has the objects as YAML, grouped by kind in the order of
// the arguments, and sorted by namespace and name. A failure shows the objects that differ.
//
// The file omits what differs from run to run: UIDs, resourceVersions, managed fields, times of
// creation. In other places such values are replaced:
//
//   - a UID, for example in a label, by <uid of Job default/a>
//   - the generated suffix of a name by <generated>
//   - an address or a node port that the server has allocated to a service by <chosen>
//   - a time by <time>: in a status any time, elsewhere one between the start of the server and
//     now. In a bubble, times are the same in every run, so the file has them.
//
// If this makes keys of a map equal, they are numbered in the order of their values:
// job-<generated>, job-<generated> 2.
//
// Golden recognizes the UIDs and generated names of the objects in the file, and the UIDs of their
// owners. If an object mentions other objects, add their kinds: names and UIDs of other kinds, and
// of deleted objects, are written unchanged, and differ from run to run.
//
// With KAPOKTEST_UPDATE=1 in the environment, or another true value of [strconv.ParseBool], Golden
// writes the file.
func (e *Env) Golden(file string, kinds ...client.Object) {
	e.t.Helper()
	if len(kinds) == 0 {
		e.t.Fatalf("golden file %s: no kinds given", file)
	}
	write := false
	if value := os.Getenv(update); value != "" {
		var err error
		if write, err = strconv.ParseBool(value); err != nil {
			e.t.Fatalf("golden file %s: %s=%s is neither true nor false", file, update, value)
		}
	}
	got, err := e.dump(kinds)
	if err != nil {
		e.t.Fatalf("golden file %s: %v", file, err)
	}
	if write {
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
	}
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")) // as git may write it
	if bytes.Equal(got, want) {
		return
	}
	text, err := objectDiff(string(want), string(got))
	if err != nil {
		e.t.Fatalf("golden file %s: %v", file, err)
	}
	e.t.Errorf("the objects differ from %s (%s=1 writes it):\n%s", file, update, cmp.Or(text, "the same objects in another format\n"))
}

// dump returns the content for the golden file.
func (e *Env) dump(kinds []client.Object) ([]byte, error) {
	var all []unstructured.Unstructured
	ends := []int{} // of each kind, in all
	for _, kind := range kinds {
		gvk, err := client.GVKForObject(kind, e.scheme)
		if err != nil {
			return nil, err
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := e.client.List(e.ctx, list); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		ends = append(ends, len(all))
	}
	scrub, err := e.scrubber(all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, start := 0, 0; i < len(ends); i, start = i+1, ends[i] {
		var texts [][2]string // the name, and the object
		for _, u := range all[start:ends[i]] {
			scrub(&u)
			text, err := yaml.Marshal(u.Object)
			if err != nil {
				return nil, err
			}
			texts = append(texts, [2]string{u.GetNamespace() + "/" + u.GetName(), string(text)})
		}
		slices.SortFunc(texts, func(a, b [2]string) int {
			return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) // generated names are the same now
		})
		for _, text := range texts {
			out.WriteString("---\n" + text[1])
		}
	}
	return out.Bytes(), nil
}

// objectDiff shows how the objects of two golden files differ, each under its name.
func objectDiff(before, after string) (string, error) {
	old, order, err := documents(before)
	if err != nil {
		return "", err
	}
	now, names, err := documents(after)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range append(order, slices.DeleteFunc(names, func(name string) bool { return slices.Contains(order, name) })...) {
		was, is := old[name], now[name] // several, if their names are generated
		missing := slices.DeleteFunc(slices.Clone(was), func(text string) bool { return slices.Contains(is, text) })
		surplus := slices.DeleteFunc(slices.Clone(is), func(text string) bool { return slices.Contains(was, text) })
		if len(was) != len(is) && len(missing) == 0 && len(surplus) == 0 {
			fmt.Fprintf(&out, "--- %s: %d objects, want %d\n", name, len(is), len(was))
		}
		for i := range max(len(missing), len(surplus)) {
			switch {
			case i >= len(surplus):
				fmt.Fprintf(&out, "--- %s does not exist\n", name)
			case i >= len(missing):
				fmt.Fprintf(&out, "--- %s is not in the file\n%s", name, lineDiff(nil, strings.Split(surplus[i], "\n")))
			default:
				fmt.Fprintf(&out, "--- %s\n%s", name, lineDiff(strings.Split(missing[i], "\n"), strings.Split(surplus[i], "\n")))
			}
		}
	}
	return out.String(), nil
}

// documents returns the objects of a golden file by kind, namespace and name, and these in their
// order.
func documents(file string) (objects map[string][]string, names []string, err error) {
	objects = map[string][]string{}
	for text := range strings.SplitSeq("\n"+file, "\n---\n") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			return nil, nil, err
		}
		name := u.GetKind() + " " + qualified(u.GetNamespace(), u.GetName())
		if objects[name] == nil {
			names = append(names, name)
		}
		objects[name] = append(objects[name], text)
	}
	return objects, names, nil
}

func qualified(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }
