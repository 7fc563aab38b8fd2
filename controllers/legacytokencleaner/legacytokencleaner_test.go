package legacytokencleaner_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/controllers/legacytokencleaner"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/test/controllertest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"

	day    = 24 * time.Hour
	period = 3 * day // not a year, which takes minutes even in virtual time
)

func newSecret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

// setUp creates the account robot with the secrets, which it lists, and the config map that a
// server with a socket writes.
func setUp(env *kapoktest.Env, secrets ...*corev1.Secret) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}}
	for _, s := range secrets {
		account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: s.Name})
	}
	env.Create(account, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-apiserver-legacy-service-account-token-tracking"},
		Data:       map[string]string{"since": time.Now().UTC().Format(time.DateOnly)},
	})
	for _, s := range secrets {
		env.Create(s)
	}
	env.Settle() // the server writes tokens
	return account
}

// run runs the controller with the period.
func run(t *testing.T, env *kapoktest.Env, cfg *rest.Config) {
	t.Helper()
	cfg.UserAgent = controllers.UserAgent
	m, err := manager.New(cfg, manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := (legacytokencleaner.Options{CleanUpPeriod: period}).Add(m); err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

// at waits until a time has passed since the bubble began.
func at(start time.Time, since time.Duration) { time.Sleep(time.Until(start.Add(since))) }

// TestClean checks that a token is marked after a period without use, and deleted after two.
func TestClean(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start := time.Now()
		s := newSecret("old")
		setUp(env, s)
		run(t, env, env.Config())
		at(start, period+day-time.Hour) // the day on which tracking begins does not count
		if env.Get(s); s.Labels[invalidSince] != "" {
			t.Errorf("marked %s", s.Labels[invalidSince])
		}
		at(start, period+day+time.Hour)
		if env.Get(s); s.Labels[invalidSince] != start.Add(period+day).Format(time.DateOnly) {
			t.Errorf("invalid since %q", s.Labels[invalidSince])
		}
		at(start, 2*period+2*day-time.Hour)
		if !env.Exists(s) {
			t.Error("deleted too early")
		}
		at(start, 2*period+2*day+time.Hour)
		if env.Exists(s) {
			t.Error("not deleted")
		}
		if n := controllertest.Writes(env, period); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
	})
}

// TestUsed checks that the server writes the date of the last use of a token, on which its period
// begins, and that a marked token is refused.
func TestUsed(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start := time.Now()
		s := newSecret("used")
		setUp(env, s)
		run(t, env, env.Config())
		env.Get(s)
		cfg := rest.AnonymousClientConfig(env.Config())
		cfg.Transport = env.Config().Transport
		cfg.BearerToken = string(s.Data[corev1.ServiceAccountTokenKey])
		c, err := client.New(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		use := func() error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "robot"}, &corev1.ServiceAccount{})
		}
		const refused = `serviceaccounts "robot" is forbidden`
		at(start, 2*day+time.Hour)
		before := len(env.Writes())
		for range 3 {
			if err := use(); err == nil || len(err.Error()) < len(refused) || err.Error()[:len(refused)] != refused {
				t.Fatalf("error %v: want that of an authenticated user", err)
			}
		}
		if env.Get(s); s.Labels[lastUsed] != start.Add(2*day).Format(time.DateOnly) {
			t.Errorf("last used %q", s.Labels[lastUsed])
		}
		if n := len(env.Writes()) - before; n > 0 {
			t.Errorf("%d requests", n)
		}
		at(start, 2*day+period+day-time.Hour)
		if env.Get(s); s.Labels[invalidSince] != "" {
			t.Errorf("marked %s", s.Labels[invalidSince])
		}
		at(start, 2*day+period+day+time.Hour)
		if env.Get(s); s.Labels[invalidSince] == "" {
			t.Error("not marked")
		}
		if err := use(); err == nil || err.Error() != "Unauthorized" {
			t.Errorf("error %v of a token that is invalid", err)
		}
	})
}

// TestKept checks which tokens stay, and that those are marked which are no longer in use by a pod,
// or are listed by their account later.
func TestKept(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start := time.Now()
		mounted, listed, unreadable := newSecret("mounted"), newSecret("listed"), newSecret("unreadable")
		unreadable.Labels = map[string]string{lastUsed: "yesterday"}
		opaque := &corev1.Secret{ObjectMeta: newSecret("opaque").ObjectMeta}
		account := setUp(env, mounted, listed, unreadable, opaque)
		env.Update(account, func() { account.Secrets = account.Secrets[:1] })
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i:1"}},
				Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
			},
		}
		env.Create(pod)
		run(t, env, env.Config())
		at(start, 3*period)
		all := []*corev1.Secret{mounted, listed, unreadable, opaque}
		for _, s := range all {
			if env.Get(s); s.Labels[invalidSince] != "" {
				t.Errorf("%s is marked", s.Name)
			}
		}
		env.Delete(pod)
		env.Update(account, func() {
			account.Secrets = nil
			for _, s := range all {
				account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: s.Name})
			}
		})
		env.Settle()
		for _, s := range all {
			if env.Get(s); (s.Labels[invalidSince] != "") != (s == mounted || s == listed) {
				t.Errorf("%s: marked %q", s.Name, s.Labels[invalidSince])
			}
		}
	})
}

// TestRefused counts the writes of a controller whose writes are refused.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		setUp(env, newSecret("old"))
		time.Sleep(period + 2*day)
		run(t, env, env.User("reader", kapoktest.Can("get,list,watch", "*")))
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, 10*time.Hour); n < 30 || n > 45 {
			t.Errorf("%d writes in ten hours, want a backoff of up to 1,000 s", n)
		}
	})
}
