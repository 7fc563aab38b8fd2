package clients

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// blockedBy names the socket that TestBlockedBubble opens.
const blockedBy = "KAPOK_TEST_BLOCKED_BY"

// TestBlockedBubble is run by TestSocketsOfManagerInBubble, in another process.
func TestBlockedBubble(t *testing.T) {
	socket := os.Getenv(blockedBy)
	if socket == "" {
		t.Skip("is run by TestSocketsOfManagerInBubble")
	}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		o := options()
		switch socket {
		case "metrics":
			server.DefaultBindAddress = "127.0.0.1:0" // instead of :8080, which may be in use
			o.Metrics = server.Options{}
		case "health":
			o.HealthProbeBindAddress = "127.0.0.1:0"
		}
		mgr, err := ctrl.NewManager(env.Config(), o)
		check(t, err)
		check(t, mgr.AddHealthzCheck("ping", healthz.Ping))
		env.Go(mgr.Start)
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}})
		time.Sleep(time.Hour)
	}, kapoktest.BlockedTimeout(time.Second))
}

// TestSocketsOfManagerInBubble checks that a manager of controller-runtime that listens in a bubble
// fails its test, with a message that names the option to set.
func TestSocketsOfManagerInBubble(t *testing.T) {
	for socket, want := range map[string]string{
		"metrics": `set Metrics.BindAddress of the manager's options to "0"`,
		"health":  `set HealthProbeBindAddress and PprofBindAddress of the manager's options to "0"`,
	} {
		t.Run(socket, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBlockedBubble$", "-test.timeout=2m")
			cmd.Env = append(os.Environ(), blockedBy+"="+socket)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("it passes:\n%s", out)
			}
			for _, want := range []string{"--- FAIL: TestBlockedBubble", "waits for connections to a socket in sigs.k8s.io/controller-runtime/", want} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
