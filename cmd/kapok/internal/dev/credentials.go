package dev

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/kapok-dev/kapok/internal/pki"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// webhookDir is the directory with the certificate of the operator's webhooks.
func (d *dev) webhookDir() string { return filepath.Join(d.Dir, "webhook") }

// servingFile is the file of package pki with the serving certificate and its key.
const servingFile = "server.pem"

// makeWebhookCredentials finds a port for the operator's webhooks, and makes a certificate for it.
func (d *dev) makeWebhookCredentials() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a port for webhooks: %w", err)
	}
	d.webhookPort = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	credentials, err := pki.Open(d.webhookDir(), nil, []string{"127.0.0.1", "localhost"}, time.Now())
	if err != nil {
		return fmt.Errorf("make a certificate for webhooks: %w", err)
	}
	d.webhookCA = base64.StdEncoding.EncodeToString(credentials.RootCA())
	return nil
}

// kubeconfigFor writes the kubeconfig of the operator: with a token of its service account, so that
// rules that it lacks show.
func (d *dev) kubeconfigFor(ctx context.Context, m *manifests) (string, error) {
	config, err := clientcmd.Load(d.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read the server's kubeconfig: %w", err)
	}
	if !d.Admin && m.account != "" {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.account}}
		day := int64(24 * 60 * 60)
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
		if err := d.client.SubResource("token").Create(ctx, account, request); err != nil {
			return "", fmt.Errorf("get a token of the service account %s/%s: %w", m.namespace, m.account, err)
		}
		for _, c := range config.Contexts {
			config.AuthInfos[c.AuthInfo] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
			c.Namespace = m.namespace
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write the operator's kubeconfig: %w", err)
	}
	path := filepath.Join(d.Dir, "operator.kubeconfig")
	return path, pki.WriteFile(path, data)
}
