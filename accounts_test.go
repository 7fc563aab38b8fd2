package kapok_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// accountToken makes an account in the namespace default, if it is not there, and a token for it.
func accountToken(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// known wants a server to know the bearer of a token, who may do nothing.
func known(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	if _, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want forbidden", err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
}

func unknown(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	if _, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v, want unauthorized", err)
	}
}

// In the process, too, a bearer is who his token says, and no longer than it says.
func TestTokensInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(t.Context(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		config := server.Config()
		admin := kubernetes.NewForConfigOrDie(config)
		token := accountToken(t, admin, "robot")
		config.BearerToken = token
		robot := kubernetes.NewForConfigOrDie(config)
		known(t, robot)
		time.Sleep(62 * time.Minute)
		unknown(t, robot)

		config.BearerToken = accountToken(t, admin, "robot")
		robot = kubernetes.NewForConfigOrDie(config)
		known(t, robot)
		if err := admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		unknown(t, robot)
	})
}

// Tokens outlive the process, and mean nothing to another server.
func TestTokensOutliveProcess(t *testing.T) {
	dir := t.TempDir()
	start := func(dir string) *kapok.Server {
		server, err := kapok.Start(t.Context(), kapok.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Stop() })
		return server
	}
	client := func(server *kapok.Server, token string) kubernetes.Interface {
		config := server.Config()
		config.BearerToken = token
		return kubernetes.NewForConfigOrDie(config)
	}
	server := start(dir)
	token := accountToken(t, client(server, ""), "robot")
	known(t, client(server, token))
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	known(t, client(start(dir), token))
	other := start(t.TempDir())
	accountToken(t, client(other, ""), "robot")
	unknown(t, client(other, token))
}

func TestSigningKeyFiles(t *testing.T) {
	write := func(name string) string {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	old, current := write("old"), write("current")
	dir := t.TempDir()
	token := ""
	for _, accounts := range []kapok.AccountOptions{
		{SigningKeyFile: old, Issuers: []string{"https://old"}},
		{SigningKeyFile: current, KeyFiles: []string{old}, Issuers: []string{"https://new", "https://old"}},
	} {
		server, err := kapok.Start(t.Context(), kapok.Options{DataDir: dir, Accounts: accounts})
		if err != nil {
			t.Fatal(err)
		}
		config := server.Config()
		if token == "" {
			token = accountToken(t, kubernetes.NewForConfigOrDie(config), "robot")
		}
		config.BearerToken = token
		known(t, kubernetes.NewForConfigOrDie(config))
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadAccountOptions(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, accounts := range map[string]kapok.AccountOptions{
		"no such signing key": {SigningKeyFile: empty + "x"},
		"no signing key":      {SigningKeyFile: empty},
		"no such key":         {KeyFiles: []string{empty + "x"}},
		"no key":              {KeyFiles: []string{empty}},
		"too short":           {MaxTokenExpiration: time.Minute},
		"keys in the clear":   {JWKSURI: "http://a/b"},
		"no issuer":           {Issuers: []string{""}},
	} {
		server, err := kapok.Start(t.Context(), kapok.Options{Accounts: accounts})
		if err == nil {
			server.Stop()
			t.Errorf("%s: started", name)
		}
	}
}
