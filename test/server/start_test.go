package server_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestFirstStart checks that the first server of a process does not initialize all kinds, which
// would cost each test binary tens of milliseconds. It counts allocations, because times depend on
// the load of the machine.
func TestFirstStart(t *testing.T) {
	const alone = "KAPOK_TEST_FIRST_START"
	if os.Getenv(alone) == "" { // in this process other tests have run before
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFirstStart$")
		c.Env = append(os.Environ(), alone+"=yes")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := kapok.Start(context.Background(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	const most = 6 << 20 // measured: 3 MB; 22 MB if all kinds are initialized
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("the first start allocates %d KB, want at most %d", n>>10, most>>10)
	}
}

// Validate returns the error of Start, and none for options with which a server starts.
func TestValidate(t *testing.T) {
	for _, options := range []kapok.Options{
		{Kubeconfig: "kubeconfig"}, {Listen: "localhost"}, {Store: "etcd"}, {NamespaceGrace: -1},
		{Serving: kapok.ServingOptions{MinVersion: "VersionTLS13"}},
		{Admission: kapok.AdmissionOptions{Enable: []string{"Unknown"}}},
		{Accounts: kapok.AccountOptions{Issuers: []string{""}}},
		{Audit: kapok.AuditOptions{LogPath: "-"}},
		{Access: kapok.AccessOptions{Modes: []string{"Webhook"}}},
		{Authentication: kapok.AuthenticationOptions{Webhook: kapok.TokenWebhookOptions{ConfigFile: "webhook", Version: "v2"}}},
	} {
		want := options.Validate()
		if want == nil {
			t.Errorf("%+v is valid", options)
			continue
		}
		server, err := kapok.Start(t.Context(), options)
		if err == nil {
			server.Stop()
		}
		if err == nil || err.Error() != want.Error() {
			t.Errorf("Start returns %v, Validate %v", err, want)
		}
	}
	if err := (&kapok.Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
