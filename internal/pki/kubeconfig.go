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

// kubeconfigMark begins the kubeconfig files that Kapok may replace.
const kubeconfigMark = "# Written by kapok, and replaced at its next start.\n"

// Kubeconfig returns a kubeconfig of the admin for the server that listens on an address,
// HOST:PORT. It contains all credentials, and its context is named kapok.
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

// Kubeconfig returns a kubeconfig of the user for a server, https://HOST:PORT. Its context is named
// USER@kapok.
func (c *Client) Kubeconfig(server, user string) ([]byte, error) {
	return kubeconfig(server, user, user+"@"+cluster, c)
}

// cluster is the name of the server in kubeconfigs.
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

// ClearKubeconfig removes the kubeconfig of an earlier run, because scripts take the file as the
// sign that the server is ready, and creates the directory. It returns an error if the file was not
// written by Kapok.
func ClearKubeconfig(path string) error {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(filepath.Dir(path), 0o700)
	case err != nil:
		return err
	case len(data) > 0 && !bytes.HasPrefix(data, []byte(kubeconfigMark)):
		return fmt.Errorf("kubeconfig %s exists and was not written by kapok: choose another file", path)
	}
	return os.Remove(path)
}
