package contexts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kapok-dev/kapok/internal/pki"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// extension marks the entries of this package.
const extension = "kapok.dev/instance"

// A mark is the value of the extension.
type mark struct {
	Directory string `json:"directory"`          // of the instance
	Previous  string `json:"previous,omitempty"` // the context that was selected before this one
}

// File returns the kubeconfig of the user: the first file of $KUBECONFIG that exists, or
// ~/.kube/config.
func File() string {
	files := slices.DeleteFunc(filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)), func(s string) bool { return s == "" })
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	if len(files) > 0 {
		return files[len(files)-1]
	}
	return clientcmd.RecommendedHomeFile
}

// Add adds a context with the server and user of a kubeconfig that has one context, and selects it.
// A context of this name that belongs to another directory is replaced only if that directory is
// gone.
func Add(file, name, directory string, kubeconfig []byte) error {
	from, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return err
	}
	source := from.Contexts[from.CurrentContext]
	if source == nil || from.Clusters[source.Cluster] == nil || from.AuthInfos[source.AuthInfo] == nil {
		return errors.New("the kubeconfig of the server has no context")
	}
	return change(file, func(c *clientcmdapi.Config) error {
		if !isOurs(c, name, directory) {
			return fmt.Errorf("context %s exists and is of another origin", name)
		}
		m := mark{Directory: directory, Previous: c.CurrentContext}
		if c.CurrentContext == name {
			m.Previous = markOf(c.Contexts[name]).Previous
		}
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		extensions := map[string]runtime.Object{extension: &runtime.Unknown{Raw: data, ContentType: runtime.ContentTypeJSON}}
		cluster, user := from.Clusters[source.Cluster].DeepCopy(), from.AuthInfos[source.AuthInfo].DeepCopy()
		context := &clientcmdapi.Context{Cluster: name, AuthInfo: name, Extensions: extensions}
		if before := c.Contexts[name]; before != nil {
			context.Namespace = before.Namespace // as kubectl config set-context --current set it
		}
		cluster.Extensions, user.Extensions = extensions, extensions
		c.Clusters[name], c.AuthInfos[name], c.Contexts[name] = cluster, user, context
		c.CurrentContext = name
		return nil
	})
}

// Remove removes the context of a directory, and selects the one that was selected before it. It
// does nothing if there is no such context.
func Remove(file, name, directory string) error {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return change(file, func(c *clientcmdapi.Config) error {
		context := c.Contexts[name]
		if context == nil || markOf(context).Directory != directory || !isOurs(c, name, directory) {
			return errUnchanged
		}
		previous := markOf(context).Previous
		delete(c.Contexts, name)
		delete(c.Clusters, name)
		delete(c.AuthInfos, name)
		// Instances that were selected after this one go back to what this one would have gone back to.
		for _, other := range c.Contexts {
			if m := markOf(other); m.Directory != "" && m.Previous == name {
				m.Previous = previous
				data, err := json.Marshal(m)
				if err != nil {
					return err
				}
				other.Extensions[extension] = &runtime.Unknown{Raw: data, ContentType: runtime.ContentTypeJSON}
			}
		}
		if c.CurrentContext == name {
			c.CurrentContext = ""
			if c.Contexts[previous] != nil {
				c.CurrentContext = previous
			}
		}
		return nil
	})
}

// isOurs reports whether no entry of a name would be lost that this package did not make for a
// directory.
func isOurs(c *clientcmdapi.Config, name, directory string) bool {
	all := []map[string]runtime.Object{}
	if e := c.Contexts[name]; e != nil {
		all = append(all, e.Extensions)
	}
	if e := c.Clusters[name]; e != nil {
		all = append(all, e.Extensions)
	}
	if e := c.AuthInfos[name]; e != nil {
		all = append(all, e.Extensions)
	}
	return !slices.ContainsFunc(all, func(e map[string]runtime.Object) bool {
		of := markIn(e).Directory
		if of == directory {
			return false
		}
		_, err := os.Stat(of)
		return of == "" || !errors.Is(err, fs.ErrNotExist)
	})
}

func markOf(c *clientcmdapi.Context) mark {
	if c == nil {
		return mark{}
	}
	return markIn(c.Extensions)
}

func markIn(extensions map[string]runtime.Object) (m mark) {
	if u, ok := extensions[extension].(*runtime.Unknown); ok {
		_ = json.Unmarshal(u.Raw, &m) // what is no mark is not ours
	}
	return m
}

// errUnchanged is returned by a function that changes nothing.
var errUnchanged = errors.New("unchanged")

// change loads, changes and replaces a file under its lock.
func change(file string, do func(*clientcmdapi.Config) error) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	unlock, err := lock(file)
	if err != nil {
		return err
	}
	defer unlock()
	mode := fs.FileMode(0o600)
	config := clientcmdapi.NewConfig()
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	default:
		mode = info.Mode().Perm()
		if config, err = load(file); err != nil {
			return err
		}
	}
	if err := do(config); errors.Is(err, errUnchanged) {
		return nil
	} else if err != nil {
		return err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if err := pki.WriteFile(file, data); err != nil {
		return err
	}
	if mode != 0o600 {
		return os.Chmod(file, mode)
	}
	return nil
}

// fields are those of a kubeconfig.
var fields = []string{"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context", "extensions"}

// load reads a file, of which nothing may be lost when it is written again.
func load(file string) (*clientcmdapi.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	for field := range content {
		if !slices.Contains(fields, field) {
			return nil, fmt.Errorf("it has the field %q, which kubeconfigs do not have", field)
		}
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return config, nil
}
