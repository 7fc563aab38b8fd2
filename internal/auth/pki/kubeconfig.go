package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// kubeconfigMark begins the kubeconfig files that are ours to replace.
const kubeconfigMark = "# Written by kapok, and replaced at its next start.\n"

// Kubeconfig returns a kubeconfig with which the admin reaches the server that
// listens on the address, HOST:PORT. It carries all it needs, its context is
// called kapok.
func (c *Credentials) Kubeconfig(address string) ([]byte, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if unspecified(host) {
		host = "127.0.0.1"
	}
	key, err := c.admin.keyPEM()
	if err != nil {
		return nil, err
	}
	const name = "kapok"
	data, err := yaml.Marshal(clientcmd.Config{
		APIVersion: "v1",
		Kind:       "Config",
		Clusters: []clientcmd.NamedCluster{{Name: name, Cluster: clientcmd.Cluster{
			Server:                   "https://" + net.JoinHostPort(host, port),
			CertificateAuthorityData: c.authority.certPEM(),
		}}},
		AuthInfos: []clientcmd.NamedAuthInfo{{Name: name, AuthInfo: clientcmd.AuthInfo{
			ClientCertificateData: c.admin.certPEM(),
			ClientKeyData:         key,
		}}},
		Contexts: []clientcmd.NamedContext{{Name: name, Context: clientcmd.Context{
			Cluster:  name,
			AuthInfo: name,
		}}},
		CurrentContext: name,
	})
	return append([]byte(kubeconfigMark), data...), err
}

// ClearKubeconfig makes way for a kubeconfig: it removes the one of an earlier
// run, so that nobody takes it for the sign that this run is ready, and makes
// the directory. A file that Kapok has not written is the user's: that is an
// error.
func ClearKubeconfig(path string) error {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(filepath.Dir(path), 0o700)
	case err != nil:
		return err
	case len(data) > 0 && !bytes.HasPrefix(data, []byte(kubeconfigMark)):
		return fmt.Errorf("kubeconfig %s was not written by kapok and would be lost: choose another file", path)
	}
	return os.Remove(path)
}
