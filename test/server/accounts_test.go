package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// accountToken creates an account in the namespace default, unless it exists, and returns a token
// for it.
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

// known checks that a server authenticates the bearer of a token, and that the bearer has no
// permissions.
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

// In the process, too, a request has the user of its token, as long as the token is valid.
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

// Tokens stay valid after a restart, and are invalid on another server.
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

// Each namespace has its account, which is created again after a deletion, and is deleted with the
// namespace.
func TestDefaultAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(t.Context(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		ctx, client := t.Context(), kubernetes.NewForConfigOrDie(server.Config())
		has := func(namespace string) func() error {
			return func() error {
				_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
				return err
			}
		}
		for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			eventually(t, namespace, has(namespace))
		}
		lab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, lab, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "new", has("lab"))
		if err := client.CoreV1().ServiceAccounts("lab").Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "deleted", has("lab"))
		if err := client.CoreV1().Namespaces().Delete(ctx, "lab", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := client.CoreV1().Namespaces().Get(ctx, "lab", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace: got %v", err)
		}
		// Without a socket there is no authority.
		if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("authority: got %v", err)
		}
	})
}

// A pod that is created right after its namespace finds the account, and gets a token.
func TestPodsGetAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(t.Context(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		ctx, client := t.Context(), kubernetes.NewForConfigOrDie(server.Config())
		lab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, lab, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		made, err := client.CoreV1().Pods("lab").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Spec.ServiceAccountName != "default" || len(made.Spec.Volumes) != 1 || len(made.Spec.Containers[0].VolumeMounts) != 1 {
			t.Errorf("got %+v", made.Spec)
		}
		// An update does not change what the creation has set.
		made.Labels = map[string]string{"a": "b"}
		if _, err := client.CoreV1().Pods("lab").Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		pod.Name, pod.Spec.ServiceAccountName = "q", "none"
		if _, err := client.CoreV1().Pods("lab").Create(ctx, pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
}

// A secret gets a token, and is deleted with the account.
func TestTokensInSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(t.Context(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		ctx, client := t.Context(), kubernetes.NewForConfigOrDie(server.Config())
		accountToken(t, client, "robot")
		secrets := client.CoreV1().Secrets("default")
		for _, account := range []string{"robot", "nobody"} {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: account, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
				Type:       corev1.SecretTypeServiceAccountToken,
			}
			if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := secrets.Get(ctx, "nobody", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("secret without an account: got %v", err)
		}
		secret, err := secrets.Get(ctx, "robot", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if string(secret.Data["namespace"]) != "default" || secret.Annotations[corev1.ServiceAccountUIDKey] == "" {
			t.Errorf("got %v", secret)
		}
		config := server.Config()
		config.BearerToken = string(secret.Data["token"])
		robot := kubernetes.NewForConfigOrDie(config)
		known(t, robot)
		time.Sleep(24 * 365 * time.Hour)
		known(t, robot)

		if secret, err = secrets.Get(ctx, "robot", metav1.GetOptions{}); err != nil { // it shows the last use
			t.Fatal(err)
		}
		delete(secret.Data, "token") // a new token is issued
		if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		unknown(t, robot)
		if secret, err = secrets.Get(ctx, "robot", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		config.BearerToken = string(secret.Data["token"])
		robot = kubernetes.NewForConfigOrDie(config)
		known(t, robot)

		if err := client.CoreV1().ServiceAccounts("default").Delete(ctx, "robot", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		unknown(t, robot)
		synctest.Wait()
		if _, err := secrets.Get(ctx, "robot", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("secret of a deleted account: got %v", err)
		}
	})
}

// The authority is in each namespace; with it and a token, a program in the cluster can reach the
// server.
func TestRootAuthority(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(server.Config())
	maps := client.CoreV1().ConfigMaps("default")
	watch, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	next := func(good func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
		t.Helper()
		for {
			select {
			case e := <-watch.ResultChan():
				if m, ok := e.Object.(*corev1.ConfigMap); ok && e.Type != "DELETED" && good(m) {
					return m
				}
			case <-time.After(time.Minute):
				t.Fatal("timed out waiting for the config map")
			}
		}
	}
	whole := func(m *corev1.ConfigMap) bool { return len(m.Data) == 1 && m.Data["ca.crt"] != "" }
	made := next(whole)
	authority := made.Data["ca.crt"]
	made.Data = map[string]string{"a": "b"}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	next(whole)
	if err := maps.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(func(m *corev1.ConfigMap) bool { return m.UID != made.UID && m.Data["ca.crt"] == authority })

	robot, err := kubernetes.NewForConfig(&rest.Config{
		Host:            "https://" + server.Address(),
		BearerToken:     accountToken(t, client, "robot"),
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(authority)},
	})
	if err != nil {
		t.Fatal(err)
	}
	known(t, robot)
}

// TestIssuerDocuments verifies a token with the issuer's documents only.
func TestIssuerDocuments(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client := kubernetes.NewForConfigOrDie(server.Config())
	fetch := func(path string, into any) {
		t.Helper()
		data, err := client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var configuration struct {
		Issuer     string                    `json:"issuer"`
		KeysAt     string                    `json:"jwks_uri"`
		Algorithms []jose.SignatureAlgorithm `json:"id_token_signing_alg_values_supported"`
	}
	fetch("/.well-known/openid-configuration", &configuration)
	if want := "https://" + server.Address() + "/openid/v1/jwks"; configuration.KeysAt != want {
		t.Errorf("keys are at %s, want %s", configuration.KeysAt, want)
	}
	var keys jose.JSONWebKeySet
	fetch("/openid/v1/jwks", &keys)
	for _, k := range keys.Keys {
		if !k.IsPublic() {
			t.Fatal("a private key is served")
		}
	}
	token, err := jwt.ParseSigned(accountToken(t, client, "robot"), configuration.Algorithms)
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := token.Claims(keys, &claims); err != nil {
		t.Fatal(err)
	}
	if err := claims.Validate(jwt.Expected{Issuer: configuration.Issuer, Subject: "system:serviceaccount:default:robot", AnyAudience: jwt.Audience{configuration.Issuer}}); err != nil {
		t.Error(err)
	}
}

// TestDamagedSigningKey checks that the error names the file, and that the key is not replaced,
// which would invalidate all tokens.
func TestDamagedSigningKey(t *testing.T) {
	for name, damage := range map[string]string{"empty": "", "garbage": "x", "cut off": "-----BEGIN PRIVATE KEY-----\nMIGH"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "pki", "service-account.pem")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := kapok.Start(t.Context(), kapok.Options{DataDir: dir, UnsafeNoFsync: true})
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != damage {
			t.Errorf("%s: the file contains %q, %v", name, data, err)
		}
	}
}
