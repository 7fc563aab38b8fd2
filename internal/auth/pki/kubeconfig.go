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
	data, err := kubeconfig("https://"+net.JoinHostPort(host, port), cluster, cluster, &Client{
		Certificate: c.admin.certPEM(), Key: key, Authority: c.authority.certPEM(),
	})
	return append([]byte(kubeconfigMark), data...), err
}

// Kubeconfig returns a kubeconfig with which the user of that name reaches a server, https://HOST:PORT. Its context is
// called NAME@kapok.
func (c *Client) Kubeconfig(server, user string) ([]byte, error) {
	return kubeconfig(server, user, user+"@"+cluster, c)
}

// cluster is what kubeconfigs call a server.
const cluster = "kapok"

func kubeconfig(server, user, context string, c *Client) ([]byte, error) {
	return yaml.Marshal(clientcmd.Config{
		APIVersion: "v1",
		Kind:       "Config",
		Clusters: []clientcmd.NamedCluster{{Name: cluster, Cluster: clientcmd.Cluster{
			Server:                   server,
			CertificateAuthorityData: c.Authority,
		}}},
		AuthInfos: []clientcmd.NamedAuthInfo{{Name: user, AuthInfo: clientcmd.AuthInfo{
			ClientCertificateData: c.Certificate,
			ClientKeyData:         c.Key,
		}}},
		Contexts: []clientcmd.NamedContext{{Name: context, Context: clientcmd.Context{
			Cluster:  cluster,
			AuthInfo: user,
		}}},
		CurrentContext: context,
	})
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
