package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var tokenForm = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

func newNodeJoin() *cobra.Command {
	var server nodeServer
	var address, token string
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "join",
		Short: "Print a script that joins a machine with a kubelet",
		Long: `Print a script for a machine with a container runtime and a kubelet. It writes the certificate authority of the server,
a kubeconfig with a bootstrap token, and a configuration of the kubelet, and starts the kubelet in its foreground.

Without --token, it creates a token first, as kapok node token create does. The script contains the token: a
reader of the script can become any node until the token expires.`,
		Example: `  kapok node join --kubeconfig admin.kubeconfig --server https://api.example.com:6443 | ssh root@machine sh
  kapok node join --token abcdef.0123456789abcdef > join.sh`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if at, err := url.Parse(address); address != "" && (err != nil || at.Scheme != "https" || at.Host == "") {
				return fmt.Errorf("--server %q: want https://HOST:PORT", address)
			}
			if c.Flags().Changed("token") && !tokenForm.MatchString(token) {
				return errors.New("--token: want ID.SECRET, six and sixteen lower-case letters and digits")
			}
			if ttl < time.Second {
				return fmt.Errorf("--ttl must be at least 1s, like 2h, not %v", ttl)
			}
			cfg, err := server.config()
			if err != nil {
				return failed(err)
			}
			ca, err := authorityOf(cfg)
			if err != nil {
				return failed(err)
			}
			if address == "" {
				address = cfg.Host
			}
			if token == "" {
				client, err := server.client()
				if err != nil {
					return failed(err)
				}
				if token, err = createToken(c.Context(), client, ttl, time.Now()); err != nil {
					return failed(err)
				}
			}
			return failed(writeJoin(c.OutOrStdout(), address, token, ca))
		},
	}
	server.flags(c)
	c.Flags().StringVar(&address, "server", "", "URL of the server for the machine, https://HOST:PORT (default that of the kubeconfig)")
	c.Flags().StringVar(&token, "token", "", "existing token (default a new one)")
	c.Flags().DurationVar(&ttl, "ttl", 2*time.Hour, "time until a new token expires")
	exclude(c, "token", "ttl")
	return c
}

// authorityOf returns the authority in a kubeconfig in PEM.
func authorityOf(cfg *rest.Config) ([]byte, error) {
	switch {
	case len(cfg.CAData) > 0:
		return cfg.CAData, nil
	case cfg.CAFile != "":
		return os.ReadFile(cfg.CAFile)
	}
	return nil, errors.New("the kubeconfig has no certificate authority, by which a kubelet would verify the server")
}

// writeJoin writes the script. Its files are those of kubeadm.
func writeJoin(w io.Writer, server, token string, ca []byte) error {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["kapok"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	kubeconfig.AuthInfos["bootstrap"] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts["kapok"] = &clientcmdapi.Context{Cluster: "kapok", AuthInfo: "bootstrap"}
	kubeconfig.CurrentContext = "kapok"
	bootstrap, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return err
	}
	// The texts are encoded, so that nothing in them is a command of the shell.
	encode := base64.StdEncoding.EncodeToString
	_, err = fmt.Fprintf(w, joinScript, encode(ca), encode(bootstrap), encode([]byte(kubeletConfig)))
	return err
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
rotateCertificates: true
serverTLSBootstrap: true
`

// joinScript is a format for the authority, the bootstrap kubeconfig and the kubelet's
// configuration, all in base64. ROOT is empty except in tests.
const joinScript = `set -eu
umask 077
mkdir -p "${ROOT:=}/etc/kubernetes/pki" "$ROOT/var/lib/kubelet"
echo %s | base64 -d > "$ROOT/etc/kubernetes/pki/ca.crt"
echo %s | base64 -d > "$ROOT/etc/kubernetes/bootstrap-kubelet.conf"
echo %s | base64 -d > "$ROOT/var/lib/kubelet/config.yaml"
exec kubelet --config "$ROOT/var/lib/kubelet/config.yaml" --kubeconfig "$ROOT/etc/kubernetes/kubelet.conf" \
  --bootstrap-kubeconfig "$ROOT/etc/kubernetes/bootstrap-kubelet.conf"
`
