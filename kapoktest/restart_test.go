package kapoktest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestRestart checks that after a restart a new server has all committed objects and no history,
// and that earlier clients reach it.
func TestRestart(t *testing.T) {
	scenario := func(t testing.TB, env *kapoktest.Env) {
		client := clientOf(t, env.Config())
		a := configMap("a")
		env.Create(a, widget("w"))
		before := *a
		env.Update(a, func() { a.Data = map[string]string{"k": "v"} })
		account := client.CoreV1().ServiceAccounts("default")
		env.WaitFor(t.Context(), serviceAccount("default"), func() bool { return true })
		token, err := account.CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first := env.Server()
		open, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: a.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}

		env.Restart()
		env.Restart()

		if env.Server() == first {
			t.Error("the server is the one of before")
		}
		if err := first.Wait(); err != nil {
			t.Errorf("the server of before: %v", err)
		}
		for event := range open.ResultChan() {
			t.Errorf("a watch of before ends with %+v", event)
		}
		got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || got.UID != a.UID || got.ResourceVersion != a.ResourceVersion || got.Data["k"] != "v" {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := client.CoreV1().ConfigMaps("default").Update(t.Context(), &before, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update of what was before: %v", err)
		}
		w := widget("w")
		env.UpdateStatus(w, func() { w.Object["status"] = map[string]any{"ready": true} })
		if ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready"); !ready {
			t.Errorf("a custom resource: %v", w.Object)
		}
		review, err := client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
		if err != nil || !review.Status.Authenticated {
			t.Errorf("a token of before: %+v, %v", review, err)
		}
		resumed, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		if event := <-resumed.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("a watch from before goes on with %+v", event)
		}
		resumed.Stop()
		if text := env.History(a); !strings.Contains(text, "the server has dropped the earlier history") || !strings.Contains(text, "+   k: v") {
			t.Errorf("the history of what was before:\n%s", text)
		}
	}
	t.Run("bubble", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { scenario(t, env) }, kapoktest.CRDs("testdata/crd"))
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		scenario(t, kapoktest.Start(t, kapoktest.CRDs("testdata/crd")))
	})
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		scenario(t, kapoktest.Start(t, kapoktest.CRDs("testdata/crd"), kapoktest.Server(func(o *kapok.Options) { o.DataDir = dir })))
	})
}

// TestWaitAcrossRestarts checks that a wait for an object survives restarts, and sees changes
// during and after them.
func TestWaitAcrossRestarts(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(configMap("a"), configMap("other"))
		var others sync.WaitGroup
		others.Go(func() {
			for n := range 10 {
				time.Sleep(time.Minute)
				env.Restart()
				other := configMap("other")
				env.Update(other, func() { other.Data = map[string]string{"n": fmt.Sprint(n)} })
				env.Restart()
			}
			a := configMap("a")
			env.Update(a, func() { a.Data = map[string]string{"done": "yes"} })
		})
		a := configMap("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		env.WaitFor(ctx, a, func() bool { return a.Data["done"] == "yes" })
		others.Wait()
	})
}

// TestRestartWithSocket checks that a kubeconfig stays valid after a restart: address and authority
// stay the same.
func TestRestartWithSocket(t *testing.T) {
	t.Parallel()
	env := kapoktest.Start(t, kapoktest.Server(func(o *kapok.Options) { o.Listen = "127.0.0.1:0" }))
	config, err := clientcmd.RESTConfigFromKubeConfig(env.Server().Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	env.Create(configMap("a"))
	env.Restart()
	client := clientOf(t, config)
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("with the earlier credentials: %v", err)
	}
	utilnet.CloseIdleConnectionsFor(client.CoreV1().RESTClient().(*rest.RESTClient).Client.Transport)
}

// TestNoSocketInBubble checks that a server with a socket fails a test in a bubble, and does not
// keep its clock from advancing.
func TestNoSocketInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := fails(t, func(tb testing.TB) {
			kapoktest.Start(tb, kapoktest.Server(func(o *kapok.Options) { o.Listen = "127.0.0.1:0" }))
		})
		if !strings.Contains(text, "listen at 127.0.0.1:0: a server in a bubble cannot listen") {
			t.Errorf("it says %q", text)
		}
	})
}

// TestRestartFault checks that the outcome of a write during a restart is unknown, that other
// requests are rejected until the server is up, and that those of the Env wait for it.
func TestRestartFault(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(12) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			client := clientOf(t, env.Config())
			first, history := env.Server(), env.Began()
			env.Create(configMap("before"))
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
			if err == nil || errors.As(err, new(apierrors.APIStatus)) {
				t.Fatalf("a write that meets a restart: %v", err)
			}
			kapoktest.NoMoreFaults(env)
			synctest.Wait()
			begin := time.Now()
			if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("during the restart: %v", err)
			}
			outcomes[fmt.Sprintf("committed %t", env.Exists(configMap("a")))]++
			if took := time.Since(begin); took <= 0 || took > time.Minute || env.Server() == first {
				t.Errorf("it is back after %v", took)
			}
			w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: history})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			outcomes[fmt.Sprintf("forgets %t", (<-w.ResultChan()).Type == "ERROR")]++
			if faults := env.Faults(); len(faults) != 1 || faults[0].What != "Restart" {
				t.Errorf("faults %v", faults)
			}
		}, kapoktest.WithFaults(seed, kapoktest.Faults{Restart: 1, MaxOutage: time.Minute}))
	}
	for _, outcome := range []string{"committed true", "committed false", "forgets true", "forgets false"} {
		if outcomes[outcome] == 0 {
			t.Errorf("never: %s", outcome)
		}
	}
}

// TestRestartFails checks that a failed restart fails the test, and that waits end.
func TestRestartFails(t *testing.T) {
	text := fails(t, func(tb testing.TB) {
		missing := ""
		env := kapoktest.Start(tb, kapoktest.Server(func(o *kapok.Options) {
			missing = filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(missing, []byte("secret,eve,1"), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Listen, o.Authentication.TokenFile = "127.0.0.1:0", missing
		}))
		if err := os.Remove(missing); err != nil {
			t.Fatal(err)
		}
		env.Restart()
		env.Restart()
		if err := env.Client().Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
	})
	if !strings.Contains(text, "restart the server: ") {
		t.Errorf("it says %q", text)
	}
}

// TestRestartUnderLoad restarts the server, writes and waits from many goroutines: none hangs, and
// no acknowledged write is lost.
func TestRestartUnderLoad(t *testing.T) {
	faults := kapoktest.Faults{Restart: 0.02, MaxOutage: 5 * time.Millisecond}
	t.Run("bubble", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { restartUnderLoad(t, env) }, kapoktest.WithFaults(1, faults))
	})
	t.Run("real time", func(t *testing.T) {
		t.Parallel()
		restartUnderLoad(t, kapoktest.Start(t, kapoktest.WithFaults(1, faults)))
	})
}

func restartUnderLoad(t *testing.T, env *kapoktest.Env) {
	var acknowledged atomic.Int64
	var all sync.WaitGroup
	for writer := range 3 {
		client := clientOf(t, env.Config())
		all.Go(func() {
			for n := range 50 {
				if n%20 == 10 && writer == 0 {
					env.Restart()
				}
				if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(fmt.Sprint(writer, "-", n)), metav1.CreateOptions{}); err == nil {
					acknowledged.Add(1)
				}
			}
		})
	}
	for n := range 20 {
		env.Create(configMap(fmt.Sprint("own-", n)))
	}
	env.EndFaults()
	all.Wait()
	cms := &corev1.ConfigMapList{}
	if err := env.Client().List(t.Context(), cms); err != nil || len(cms.Items) < 20+int(acknowledged.Load()) || acknowledged.Load() == 0 {
		t.Errorf("%d objects, %d acknowledged, %v", len(cms.Items), acknowledged.Load(), err)
	}
}

// TestRestartDuringWebhook checks that a restart does not wait for a webhook that is being called,
// even if the webhook waits for the restart: the client gets a broken connection.
func TestRestartDuringWebhook(t *testing.T) {
	const hook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.example.com
  clientConfig: {service: {namespace: system, name: webhook-service, path: /validate}}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 30
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`
	file := filepath.Join(t.TempDir(), "hook.yaml")
	if err := os.WriteFile(file, []byte(hook), 0o600); err != nil {
		t.Fatal(err)
	}
	restart := func(env *kapoktest.Env) { env.Restart() }
	for _, tc := range []struct {
		name   string
		answer func(env *kapoktest.Env, released <-chan struct{})
		test   func(env *kapoktest.Env)
	}{
		{"that waits for the test", func(_ *kapoktest.Env, released <-chan struct{}) { <-released }, restart},
		{"that asks the server", func(env *kapoktest.Env, _ <-chan struct{}) {
			time.Sleep(time.Second)
			env.Exists(configMap("policy"))
		}, restart},
		{"that restarts", func(env *kapoktest.Env, _ <-chan struct{}) { env.Restart() }, func(*kapoktest.Env) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				released, answered := make(chan struct{}), make(chan struct{})
				env.WebhookMux().HandleFunc("/validate", func(http.ResponseWriter, *http.Request) {
					defer close(answered)
					tc.answer(env, released)
				})
				asked, begin := make(chan error, 1), time.Now()
				go func() { asked <- env.Client().Create(t.Context(), configMap("a")) }()
				synctest.Wait()
				tc.test(env)
				// After an EOF client-go would retry a get, after a sleep.
				if err := <-asked; err == nil || errors.As(err, new(apierrors.APIStatus)) || utilnet.IsProbableEOF(err) {
					t.Errorf("the client gets: %v", err)
				}
				if took := time.Since(begin); took != 0 {
					t.Errorf("it took %v", took)
				}
				close(released)
				<-answered
				if env.Exists(configMap("a")) {
					t.Error("a rejected object exists")
				}
			}, kapoktest.Webhooks(file))
		})
	}
}
